"""Unreadable znodes: skipped and reported."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from pyspider_zk.errors import BadMessage

Value = TypeVar("Value")
Found = tuple[bytes, int]
"""A znode's data and version."""

logger = logging.getLogger(__name__)

MOST = 1000  # paths that are remembered; other programs could create any number
BELOW = "/*"  # ends the name for all that is below a znode, which itself is readable
LONGEST = 300  # characters of a reason that are kept


class Unreadable:
    """Register of the znodes that a reader skips: logged once each, listed while they exist.

    Threads: any; nothing blocks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reasons: dict[str, str] = {}
        self._is_full = False

    def decoded(
        self, path: str, found: Found | None, decode: Callable[[bytes], Value]
    ) -> Value | None:
        """Return a znode's value, None if it is missing or unreadable."""
        try:
            value = None if found is None else decode(found[0])
        except BadMessage as error:
            self.note(path, error)
            return None
        self.forget(path)
        return value

    def parsed(
        self, parent: str, names: Collection[str], parse: Callable[[str], Value]
    ) -> dict[str, Value]:
        """Return what the names of a znode's children say; those that say nothing are skipped.

        Those that are gone are forgotten, whatever was wrong with them.

        Args:
            names: of all children.
        """
        self._forget_the_gone(parent, names)
        parsed = {}
        for name in names:
            try:
                parsed[name] = parse(name)
            except BadMessage as error:
                self.note(f"{parent}/{name}", error)
        return parsed

    def _forget_the_gone(self, parent: str, names: Collection[str]) -> None:
        noted = {path: path.removesuffix(BELOW) for path in self.mapping()}
        noted = {path: of for path, of in noted.items() if of.rpartition("/")[0] == parent}
        if noted:
            there = {f"{parent}/{name}" for name in names}
            self.forget(*(path for path, of in noted.items() if of not in there))

    def note(self, path: str, reason: object) -> None:
        """Remember a znode that was skipped; log it unless that was logged before.

        Args:
            path: the znode's path.
            reason: what is wrong with it, for instance a ``BadMessage``.
        """
        shown = str(reason)[:LONGEST]
        with self._lock:
            if self._reasons.get(path) == shown or not self._has_room(path):
                return
            self._reasons[path] = shown
        logger.warning("%s is passed over: %s; delete it or write it anew", path, shown)

    def forget(self, *paths: str) -> None:
        """Forget znodes that are readable by now, or gone; unknown ones are ignored."""
        with self._lock:
            for path in paths:
                self._reasons.pop(path, None)
            self._is_full = self._is_full and len(self._reasons) >= MOST

    def mapping(self) -> Mapping[str, str]:
        """Return the reason for each skipped znode, by path."""
        with self._lock:
            return dict(self._reasons)

    def _has_room(self, path: str) -> bool:
        if path in self._reasons or len(self._reasons) < MOST:
            return True
        if not self._is_full:
            self._is_full = True
            logger.warning(
                "more than %d znodes cannot be read; no more are named, %s among them", MOST, path
            )
        return False
