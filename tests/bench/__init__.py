"""Measures what a scheduler does and costs; see docs/internals/performance.md."""
