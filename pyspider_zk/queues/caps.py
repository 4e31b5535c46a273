"""Limits of messages, so that no message can stall a scheduler's round.

Constants are read at each use, because tests lower them.
"""

MESSAGE = 16 * 2**20
"""Bytes of one message of a slot queue or the inbox."""

PAGE = 64 * 2**20
"""Bytes of one message between the components: they carry pages."""

ROUND = 32 * 2**20
"""Bytes of one read of the slot queues, or of the inbox."""

TASKS = 10_000
"""Tasks in one message of the inbox; pyspider sends 1,000."""

KEPT = 64 * 2**10
"""Bytes that are kept of a message that is too large."""

SHOWN = 64 * 2**10
"""Bytes of a dead letter that are shown; a replay puts all of it back."""

DEAD = 256 * 2**20
"""Bytes of all dead letters together, as Redis estimates them; the oldest go first."""

LETTERS = 10_000
"""Dead letters; a flood of invalid messages must not fill the memory, the oldest go first."""
