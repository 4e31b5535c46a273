"""Metrics and health of a process: their names, their text, and the port that serves them."""
