"""A connection that loses replies: the request was carried out, and nobody hears of it."""

from collections.abc import Callable, Sequence

from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.zookeeper.connection import Connection, Watch
from pyspider_zk.zookeeper.steps import Step
from tests.support.connected import HUNG


class Lossy(Connection):
    """Loses the replies to the next ``lose`` transactions, or to as many that are sent together.

    Of transactions that are sent together, only the first ``arrive`` reach the server; None: all.
    ``before`` happens before the next transaction, ``before_find`` before the next look. With
    ``lags`` the reply is lost with the server that gave it: the next one has not heard of the
    transaction, and lists what was there before, until it is made to catch up.
    """

    lose = 0
    arrive: int | None = None
    lags = False
    _is_behind = False
    before: Callable[[], object] | None = None
    before_find: Callable[[], object] | None = None

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, HUNG)
        self._listed: dict[str, list[str]] = {}

    def multi(self, *steps: Step) -> list[object]:
        hook, self.before = self.before, None
        if hook:
            hook()
        results = super().multi(*steps)
        if self.lose:
            self.lose -= 1
            self._is_behind = self.lags
            raise Unavailable("the reply was lost")
        return results

    def multi_all(self, transactions: Sequence[Sequence[Step]]) -> list[Exception | None]:
        hook, self.before = self.before, None
        if hook:
            hook()
        refusals = super().multi_all(transactions[: self.arrive])
        if self.lose:
            self.lose -= 1
            self.arrive = None
            self._is_behind = self.lags
            raise Unavailable("the replies were lost")
        return refusals

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        names = super().children(path, watch)
        if not self._is_behind:
            self._listed[path] = names
        return self._listed.get(path, [])

    def sync(self, path: str) -> None:
        super().sync(path)
        self._is_behind = False

    def find(self, path: str, watch: Watch | None = None) -> tuple[bytes, int] | None:
        hook, self.before_find = self.before_find, None
        if hook:
            hook()
        return super().find(path, watch)
