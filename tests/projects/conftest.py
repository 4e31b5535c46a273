"""The databases of each backend in turn."""

from tests.patches.databases import backend, databases

__all__ = ["backend", "databases"]  # fixtures
