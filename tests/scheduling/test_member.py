"""How a member runs: what surrounds its rounds."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from xmlrpc.client import ServerProxy

from pyspider_zk.scheduling.member import ClusterScheduler
from tests.support.sole_owner import SoleOwner
from tests.support.stand_ins import running
from tests.support.world import SLOTS, World, granted


class SentToAtLast(ClusterScheduler):
    """A member that ends once it knows its project; then somebody sends it a task by hand."""

    def run_once(self) -> None:
        super().run_once()
        if self.projects and not self.projects["p"].waiting_get_info:
            self.send_by_hand({"taskid": "last", "project": "p", "url": "http://site.example/"})
            self.quit()


def test_a_task_that_was_sent_by_hand_before_its_end_goes_to_the_next_owner(world: World) -> None:
    world.project("p")
    world.script_is_known("p")
    world.fetcher.maxsize = 1
    with running(world.member(SentToAtLast, SoleOwner(SLOTS)).run):
        pass
    world.dispatched()

    world.scheduler(granted(epoch=2)).run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["last"]


class SlowMover(SoleOwner):
    """An owner whose slots move away when the test lets them."""

    drains = 0

    def drain(self) -> None:
        self.drains += 1


def test_whoever_asks_for_draining_again_does_not_hurry_it(
    world: World, eventually: Callable[..., None]
) -> None:
    """As those do who got no answer; here all of them ask at once."""
    owner = SlowMover(SLOTS)
    owner.alone = False
    member = world.member(ClusterScheduler, owner)

    def drain(_: int) -> None:
        with ServerProxy(f"http://127.0.0.1:{member.rpc.bound(5)[1]}/", allow_none=True) as proxy:
            proxy.local_drain()

    with running(member.run) as loop:
        eventually(lambda: len(member.fence.held) == SLOTS)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(drain, range(40)))
        eventually(lambda: owner.drains)
        assert loop.is_alive()
        owner.ask_back(range(SLOTS))

    assert owner.drains == 1
    assert len(owner.given_up) == SLOTS
