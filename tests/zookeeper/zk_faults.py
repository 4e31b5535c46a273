"""A connection that loses replies: the request was carried out, and nobody hears of it."""

from collections.abc import Callable

from pyspider_zk.errors import Unavailable
from pyspider_zk.zookeeper.connection import Connection, Step, Watch


class Lossy(Connection):
    """Loses the replies to the next ``lose`` transactions.

    ``before`` happens before the next transaction, ``before_find`` before the next look.
    """

    lose = 0
    before: Callable[[], object] | None = None
    before_find: Callable[[], object] | None = None

    def multi(self, *steps: Step) -> list[object]:
        hook, self.before = self.before, None
        if hook:
            hook()
        results = super().multi(*steps)
        if self.lose:
            self.lose -= 1
            raise Unavailable("the reply was lost")
        return results

    def find(self, path: str, watch: Watch | None = None) -> tuple[bytes, int] | None:
        hook, self.before_find = self.before_find, None
        if hook:
            hook()
        return super().find(path, watch)
