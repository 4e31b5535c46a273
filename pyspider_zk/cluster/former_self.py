"""Former self: the registration of an earlier process of the same name that has not ended yet."""

import logging
from collections.abc import Callable, Mapping

from pyspider_zk.cluster.records import LeaseTerms
from pyspider_zk.cluster.rules import Stamp, is_suspect, observe
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage
from pyspider_zk.groups.id_allocator import IdAllocator
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection, Watch
from pyspider_zk.zookeeper.steps import Check, Delete

logger = logging.getLogger(__name__)

AFTER = 0.001  # seconds after the moment at which a lease becomes suspect


class FormerSelf:
    """What a process that was killed left registered, and with it the number of its name.

    Whoever starts under the name again takes the number back as soon as the former lease falls
    silent. It waits no longer than a session: one whose lease is renewed is somebody else.

    Threads: one thread calls the methods; they block for some seconds at most.
    """

    def __init__(
        self,
        connection: Connection,
        tree: Tree,
        clock: Callable[[], float],
        on_change: Watch,
    ) -> None:
        self._connection = connection
        self._tree = tree
        self._id_allocator = IdAllocator(connection, tree.ids, tree.members)
        self._clock = clock
        self._on_change = on_change
        self._patience_ends: float | None = None
        self._stamps: Mapping[MemberId, Stamp] = {}

    def pause(self, name: str) -> float | None:
        """Return the seconds until the next look is worth it, None once the number is free.

        Deletes the registration of one that is suspect. The watch tells if it ends before.
        """
        bearer = self._id_allocator.bearer(name, self._on_change)
        if bearer is None:
            return None
        now = self._look(bearer)
        if self._patience_ends is None:
            self._patience_ends = now + self._connection.times.end
        stamp = self._stamps.get(bearer)
        if stamp is None or is_suspect(stamp, now):
            self._remove(bearer, stamp)
            return None
        left = min(self._patience_ends, stamp.first_seen + stamp.lease / 2 + AFTER) - now
        return left if now < self._patience_ends else None

    def _look(self, bearer: MemberId) -> float:
        """Stamp the lease; return when, which is after it was read: it must not seem older."""
        found = self._connection.find(self._tree.lease(bearer))
        now = self._clock()
        version = {bearer: found[1]} if found else {}
        self._stamps = observe(self._stamps, version, now, _length(bearer, found))
        return now

    def _remove(self, bearer: MemberId, stamp: Stamp | None) -> None:
        """Delete the registration, unless its lease was renewed meanwhile."""
        judged = [Check(self._tree.lease(bearer), stamp.version)] if stamp else []
        self._connection.multi(*judged, Delete(self._tree.member(bearer)))
        logger.info("member %s does not renew its lease: its number is taken back", bearer)


def _length(bearer: MemberId, found: tuple[bytes, int] | None) -> Mapping[MemberId, float]:
    try:
        return {bearer: LeaseTerms.decode(found[0]).lease} if found else {}
    except BadMessage:
        return {}  # so it counts as the longest possible
