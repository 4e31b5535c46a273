"""Roles of those who log in to the web UI, and what each may do."""

from enum import StrEnum

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND"})
"""The methods that change nothing."""

_OPERATING = ("/update", "/run")
_OPERATING_BELOW = "/api/v1/"


class Role(StrEnum):
    """Role of an account; each includes the ones before it."""

    VIEWER = "viewer"
    """Look at everything."""
    OPERATOR = "operator"
    """Start, stop, delete and set projects."""
    ADMIN = "admin"
    """Edit and run scripts."""

    def may(self, needed: "Role") -> bool:
        """Return whether this role is enough where another is needed."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


def needed_role(method: str, path: str) -> Role:
    """Return the role that a request needs; an unknown one needs the highest."""
    if method in SAFE:
        return Role.VIEWER
    if path in _OPERATING or path.startswith(_OPERATING_BELOW):
        return Role.OPERATOR
    return Role.ADMIN
