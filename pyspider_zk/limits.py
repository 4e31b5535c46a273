"""Limits that the settings and the protocol share."""

DEFAULT_SLOTS = 256
MOST_SLOTS = 16384

LONGEST_LEASE = 600.0
"""Seconds; no member may have a longer lease, so one of unknown length has ended after that."""
