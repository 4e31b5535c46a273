"""pyspider's scheduler as a member of a cluster."""

import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from xmlrpc.client import Fault

from pyspider_zk.cluster.coordinator import Coordinator
from pyspider_zk.cluster.ownership import Coordinate
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.components.garbage import collected_between_rounds
from pyspider_zk.components.identity import is_out_of_reach, member_record
from pyspider_zk.components.monitoring import Monitoring, monitored
from pyspider_zk.components.signals import on_signals
from pyspider_zk.components.wiring import (
    current_data_path,
    current_limits,
    current_queues,
    current_settings,
)
from pyspider_zk.config import Settings
from pyspider_zk.databases.connecting import DATABASES
from pyspider_zk.errors import (
    BadMessage,
    ClusterError,
    ConfigError,
    DatabaseAway,
    FenceClosed,
    Unavailable,
)
from pyspider_zk.metrics.health import Health
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.resilient import ResilientQueue
from pyspider_zk.rpc.admission import admission_of
from pyspider_zk.rpc.client import credentials_of
from pyspider_zk.rpc.router import Router
from pyspider_zk.rpc.server import RpcServer, limits_of
from pyspider_zk.rpc.tls import server_tls
from pyspider_zk.scheduling.answers import rpc_functions
from pyspider_zk.scheduling.arrivals import Arrivals
from pyspider_zk.scheduling.census import CensusMeasures
from pyspider_zk.scheduling.engine import TaskEngine
from pyspider_zk.scheduling.measures import SchedulerMeasures, lease_left
from pyspider_zk.scheduling.member_services import NOT_JOINED, MemberServices
from pyspider_zk.scheduling.operation_answers import OperationAnswers, operation_functions
from pyspider_zk.scheduling.round_pace import RoundPace, RoundTimes
from pyspider_zk.scheduling.scheduler import SlotScheduler

logger = logging.getLogger("scheduler")

FAILED_PAUSE = 1.0  # seconds after a failed round; less than a lease: there is no beat meanwhile
LOGGED_EACH = 60  # of failed rounds in a row, every so many-th is logged


class ClusterScheduler(TaskEngine):
    """Scheduler that joins the cluster, schedules the projects of its slots, and leaves in order.

    Threads: ``run`` owns the scheduler; ``quit``, ``drain`` and XML-RPC calls may come from any.
    These change nothing that rounds use: they post it to ``calls``.

    The constructor's arguments are pyspider's; it does no I/O. ``threads`` is accepted and has
    no effect: add members instead. ``settings``, ``queues`` and ``coordinate`` are for programs
    that compose the parts themselves; otherwise they come from the command line and config.json.
    """

    out_queue: Any

    def __init__(
        self,
        *args: Any,
        threads: int | None = None,
        settings: Settings | None = None,
        queues: Queues | None = None,
        coordinate: Coordinate = Coordinator,
        **kwargs: Any,
    ) -> None:
        self.settings = settings or current_settings()
        surveyed = _surveyed(self.settings, queues)
        queues = queues or current_queues(self.settings)
        cluster = self.settings.root
        super().__init__(*args, slots=self.settings.slots, cluster=cluster, **kwargs)
        self._quit = False
        self._exceptions = 0  # in a row
        self._pace = RoundPace(lambda: self.LOOP_INTERVAL)
        self._arrivals = Arrivals(queues.wake_ups, self.fence, self.calls.post, self._pace.wake)
        self.slot_scheduler = SlotScheduler(
            self,
            self.settings.slots,
            queues,
            self._arrivals.due,
            self._arrivals.is_inbox_due,
        )
        if threads is not None:
            logger.info("threads has no effect on a cluster's scheduler: start more of them")
        self._services = MemberServices(
            self.settings,
            self,
            self.slot_scheduler.local_jobs,
            self._pace.hurry,
            queues.work,
            surveyed,
        )
        self._credentials = credentials_of(self.settings)
        self._router = Router(self._cluster, credentials=self._credentials)
        self.rpc = RpcServer(
            {
                **rpc_functions(self.slot_scheduler, self._router),
                **operation_functions(
                    OperationAnswers(
                        self._services.batch_service,
                        self._services.events,
                        lambda: self.databases.reports,
                        current_limits(),
                    )
                ),
                "local_drain": self._drain_once,
                "_quit": self._quit_if_allowed,
            },
            admission_of(self.settings),
            partial(server_tls, self.settings),
            limits_of(self.settings),
        )
        self._coordinate = coordinate
        self._drain_until: float | None = None
        self._returns_within = 0.0
        self._back_off = BackOff(logger, "scheduling waits")
        self.out_queue = ResilientQueue(self.out_queue, self._back_off)
        self._round_times = RoundTimes()
        self._data = current_data_path()
        measures = SchedulerMeasures(self.slot_scheduler, self._round_times)
        self._monitoring = Monitoring(
            "scheduler",
            Health(lambda: self.slot_scheduler.heartbeat.age, self.settings.hang, self._parts),
            [
                measures.membership,
                measures.work,
                CensusMeasures(self._services.latest_look).metrics,
            ],
        )

    def run(self) -> None:
        """Join the cluster and schedule until ``quit`` or, after ``drain``, no slot is left.

        Raises:
            ClusterError: the cluster cannot be joined, or this member failed in it.
        """
        logger.info("scheduler starting...")
        orderly = False
        try:
            with (
                on_signals({signal.SIGTERM: self.end, signal.SIGINT: self.quit}),
                collected_between_rounds() as collect_if_due,
                monitored(self.settings, self._monitoring, self._data),
            ):
                self.fence.ownership = self._join()
                self._loop(collect_if_due)
                orderly = True
        finally:
            self._leave(orderly)
            logger.info("scheduler exiting...")

    def run_once(self) -> None:
        """Do one whole round."""
        self.slot_scheduler.run_once()

    def xmlrpc_run(
        self,
        port: int = 23333,
        bind: str = "127.0.0.1",
        logRequests: bool = False,  # noqa: ARG002, N803 - pyspider's signature
    ) -> None:
        """Serve XML-RPC; port 0 picks a free one. Blocks until the scheduler ends."""
        with suppress(ConfigError, OSError):  # ``run`` raises them
            self.rpc.serve(bind, port)

    def quit(self) -> None:
        """End after the present round; all slots are free at once."""
        self._quit = True
        self._pace.hurry()

    def end(self) -> None:
        """End for a restart if the cluster gives time for one, else drain; a second call hurries.

        The slots of a member that restarts are handed over like those that move. They wait for its
        number to be back, for the cluster-wide ``restart_delay`` at most.
        """
        ownership = self.fence.ownership
        if ownership is None or self._drain_until is not None or not ownership.restart_delay:
            self.drain()
            return
        self._returns_within = ownership.restart_delay
        logger.info("ending: the slots wait %g s for a restart", self._returns_within)
        self._drain_until = time.monotonic() + self.settings.drain
        self._pace.hurry()

    def drain(self) -> None:
        """Move all slots to other members, then end; a second call ends at once."""
        if self.fence.ownership is None or self._drain_until is not None:
            self.quit()
            return
        logger.info("draining: the slots move to other members")
        self._drain_until = time.monotonic() + self.settings.drain
        self.fence.ownership.drain()

    def _drain_once(self) -> None:
        """Drain, unless it already drains; for callers who may repeat a call that got no answer.

        Raises:
            Unavailable: it has not joined yet.
        """
        if self.fence.ownership is None:
            raise Unavailable(NOT_JOINED)
        self.calls.post(self._drain_if_not_yet)

    def _drain_if_not_yet(self) -> None:
        if self._drain_until is None:
            self.drain()

    def _quit_if_allowed(self) -> None:
        """End, if the settings allow callers to end this scheduler.

        Raises:
            Fault: they do not.
        """
        if not self.settings.allow_quit:
            remedy = f"send SIGTERM to process {os.getpid()}, or set allow_quit"
            raise Fault(403, f"_quit is off: {remedy}")
        self.quit()

    def _join(self) -> Coordinator:
        self._credentials.check()
        try:
            host, port = self.rpc.bound(patience=5)
        except TimeoutError as error:
            raise ClusterError(
                "a member of a cluster is reached by XML-RPC: do not use --no-xmlrpc"
            ) from error
        except OSError as error:
            raise ClusterError(
                f"XML-RPC cannot listen ({error}): choose another --xmlrpc-port, 0 for any"
            ) from error
        if is_out_of_reach(self.settings, host):
            logger.warning(
                "XML-RPC listens on loopback: other machines cannot reach this scheduler;"
                " with a secret_file it may listen on all addresses (--xmlrpc-host 0.0.0.0)"
            )
        ownership = self._coordinate(
            self.settings,
            member_record(self.settings, port, host),
            lambda: self.slot_scheduler.active_projects,
            lambda: self.slot_scheduler.load,
        )
        ownership.start()
        self._arrivals.start()
        self._services.start(ownership)
        return ownership

    def _cluster(self) -> Cluster:
        if self.fence.ownership is None:
            raise Unavailable(NOT_JOINED)
        return self.fence.ownership.cluster()

    def _leave(self, orderly: bool) -> None:
        """Hand over and leave; after a failure the memory cannot be trusted, so only leave."""
        ownership = self.fence.ownership
        try:
            self.calls.close()
            if ownership is not None:
                self.slot_scheduler.handover.give_up_all(ownership, planned=orderly)
        except ClusterError as error:
            logger.warning("nothing could be handed over: %s", error)
        finally:
            self._services.stop()
            self._finish_history()
            if ownership is not None:
                ownership.stop(self._returns_within if orderly else 0.0)
            self._arrivals.stop()
            self.rpc.stop()
            self._router.close()
            self.slot_scheduler.queues.close()

    def _finish_history(self) -> None:
        try:
            self.slot_scheduler.add_history()
        except Unavailable as error:
            logger.warning("what was counted last is not in the history: %s", error)

    def _loop(self, after_round: Callable[[], None]) -> None:
        """Run round after round; no error in a round ends this process.

        pyspider gives up after some failed rounds. Here the next owner of the slots would meet the
        same fault, and the next: members would end one after the other. Only the failure of its
        coordinator ends a member.
        """
        while not self._quit and not self._drained():
            try:
                self._round(self._whole_round if self._await_round() else self._take_arrivals)
                after_round()
            except (FenceClosed, BadMessage) as error:
                logger.info("round stopped: %s", error)
            except Unavailable:
                continue  # it was logged
            except ClusterError:
                raise
            except Exception as error:
                self._log_failure(error)

    def _await_round(self) -> bool:
        """Wait until there is something to do; return whether it is time for a whole round."""
        slots = self.slot_scheduler
        return self._pace.await_round(is_busy=slots.is_busy, may_find_more=slots.may_find_more)

    def _whole_round(self) -> None:
        with self._pace.whole_round(), self._round_times.whole.time():
            self.run_once()

    def _take_arrivals(self) -> None:
        """Do a round for new messages only."""
        with (
            self._pace.small_round(lambda: self.slot_scheduler.intake.has_backlog),
            self._round_times.arrivals.time(),
        ):
            self.slot_scheduler.take_arrivals()

    def _round(self, work: Callable[[], None]) -> None:
        away: DatabaseAway | None = None
        with self._back_off.watching():
            try:
                work()
            except DatabaseAway as error:  # so it is not the message queue
                away = error
        if away is not None:
            raise away
        self._exceptions = 0

    def _log_failure(self, error: Exception) -> None:
        """Log a failed round, the first ones and then from time to time, and wait a little."""
        self.slot_scheduler.is_busy = False
        self._exceptions += 1
        self._round_times.failures += 1
        if self._exceptions <= self.EXCEPTION_LIMIT or self._exceptions % LOGGED_EACH == 0:
            logger.error("round failed, %d in a row", self._exceptions, exc_info=error)
        self._pace.pause(FAILED_PAUSE)

    def _parts(self) -> dict[str, bool]:
        """Return whether each part works that scheduling needs, as far as is known."""
        ownership, away = self.fence.ownership, self.databases.away
        return {
            "lease": ownership is not None and lease_left(ownership) > 0,
            "message_queue": not self._back_off.is_away,
            **{name: name not in away for name in DATABASES},
        }

    def _drained(self) -> bool:
        ownership = self.fence.ownership
        if self._drain_until is None or ownership is None:
            return False
        if time.monotonic() > self._drain_until:
            return True
        view, held = ownership.view, self.fence.held
        if self._returns_within:
            return view.owned == held and not view.releasing  # nothing is between two owners
        return ownership.alone or not (held or view.owned)


def _surveyed(settings: Settings, queues: Queues | None) -> Queues | None:
    """Return the queues that the census counts; None if nobody wants to know."""
    if not (settings.metrics or settings.alert_webhook):
        return None
    return queues or current_queues(settings)
