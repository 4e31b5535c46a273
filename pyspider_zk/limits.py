"""Limits that the settings and the protocol share."""

DEFAULT_SLOTS = 256
MOST_SLOTS = 16384

REFUSED_IN_PATHS = "\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff"
"""Characters that ZooKeeper allows in no znode's name, as in a regular expression's set."""

LONGEST_WAIT = 86400.0
"""Seconds; no other time may be longer. ZooKeeper counts the milliseconds of one in 32 bits."""

SHORTEST_LEASE = 0.5
"""Seconds; of a shorter lease or session no time is left once ZooKeeper has answered."""

SHORTEST_RENEWAL = 0.1
"""Seconds between two renewals."""

LONGEST_LEASE = 600.0
"""Seconds; no lease may be longer, so a lease of unknown length has ended after that."""

LARGEST_PAGE = 48 * 2**20
"""Bytes of a page; with its task it must fit into one message."""
