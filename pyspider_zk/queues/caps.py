"""Caps of what comes through the message queue, so that no message costs a round of a scheduler.

A constant is read where it is used, each time: tests lower them.
"""

MESSAGE = 16 * 2**20
"""Bytes of one message of a slot queue or the inbox."""

PAGE = 64 * 2**20
"""Bytes of one message between the components: they carry pages."""

ROUND = 32 * 2**20
"""Bytes that one look into the slot queues, or into the inbox, brings."""

TASKS = 10_000
"""Tasks of one message; pyspider sends 1,000."""

KEPT = 64 * 2**10
"""Bytes that are kept of a message that is larger than it may be."""

SHOWN = 64 * 2**10
"""Bytes of a dead letter that are shown; it is put back whole."""

DEAD = 256 * 2**20
"""Bytes of all dead letters together, as Redis estimates them; the oldest go first."""
