"""Limits that the settings and the protocol share."""

DEFAULT_SLOTS = 256
MOST_SLOTS = 16384

LONGEST_LEASE = 600.0
"""Seconds; no lease may be longer, so a lease of unknown length has ended after that."""
