"""pyspider's scheduler as a member of a cluster."""

import logging
import os
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any
from xmlrpc.client import Fault

from pyspider_zk.config import Settings
from pyspider_zk.core.records import Cluster
from pyspider_zk.errors import (
    BadMessage,
    ClusterError,
    ConfigError,
    DatabaseAway,
    GateClosed,
    Unavailable,
)
from pyspider_zk.hooks.closing import Closer
from pyspider_zk.hooks.dispatcher import Dispatcher
from pyspider_zk.hooks.identity import is_out_of_reach, member_record
from pyspider_zk.hooks.job_runner import JobRunner
from pyspider_zk.hooks.operation_functions import operation_functions
from pyspider_zk.hooks.ownership import Coordinate, Ownership
from pyspider_zk.hooks.router import Router
from pyspider_zk.hooks.rpc import RpcServer
from pyspider_zk.hooks.rpc_client import credentials_of
from pyspider_zk.hooks.rpc_entry import entry_of
from pyspider_zk.hooks.rpc_functions import rpc_functions
from pyspider_zk.hooks.rpc_tls import server_tls
from pyspider_zk.hooks.signals import on_signals
from pyspider_zk.hooks.slot_scheduler import SlotScheduler
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.patience import Patience
from pyspider_zk.queues.patient import PatientQueue
from pyspider_zk.wiring import current_limits, current_queues, current_settings
from pyspider_zk.zookeeper.coordinator import Coordinator
from pyspider_zk.zookeeper.events import Events

logger = logging.getLogger("scheduler")

FAILED_PAUSE = 1.0  # seconds after a failed round; less than a lease, for no beat is given
SAID_EACH = 60  # failed rounds in a row are told of each so many times


class ClusterScheduler(SlotScheduler):
    """Joins the cluster, schedules what it owns, and leaves in order.

    Threads: ``run`` owns the scheduler; ``quit``, ``drain`` and XML-RPC calls come from any.

    The constructor's arguments are pyspider's; it does no I/O. ``threads`` is accepted and has
    no effect: members are added instead. ``settings``, ``queues`` and ``coordinate`` are for
    those who compose by hand; else they come from the command line and config.json.
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
        queues = queues or current_queues(self.settings)
        super().__init__(*args, slots=self.settings.slots, queues=queues, **kwargs)
        if threads is not None:
            logger.info("threads has no effect on a cluster's scheduler: start more of them")
        self._credentials = credentials_of(self.settings)
        self._router = Router(self._cluster, credentials=self._credentials)
        self.rpc = RpcServer(
            {
                **rpc_functions(self, self._router),
                **operation_functions(self._asked_dispatcher, self._asked_events, current_limits()),
                "local_drain": self._drain_once,
                "_quit": self._quit_if_allowed,
            },
            entry_of(self.settings),
            partial(server_tls, self.settings),
        )
        self._coordinate = coordinate
        self._dispatcher: Dispatcher | None = None
        self._events: Events | None = None
        self._closer: Closer | None = None
        self._runner: JobRunner | None = None
        self._wake = threading.Event()
        self._drain_until: float | None = None
        self._patience = Patience(logger, "scheduling waits")
        self.out_queue = PatientQueue(self.out_queue, self._patience)

    def run(self) -> None:
        """Join the cluster and schedule until ``quit`` or, after ``drain``, nothing is left.

        Raises:
            ClusterError: the cluster cannot be joined, or this member failed in it.
        """
        logger.info("scheduler starting...")
        orderly = False
        try:
            with on_signals({signal.SIGTERM: self.drain, signal.SIGINT: self.quit}):
                self.gate.ownership = self._join()
                self._loop()
                orderly = True
        finally:
            self._leave(orderly)
            logger.info("scheduler exiting...")

    def xmlrpc_run(
        self,
        port: int = 23333,
        bind: str = "127.0.0.1",
        logRequests: bool = False,  # noqa: ARG002, N803 - pyspider's signature
    ) -> None:
        """Serve XML-RPC; port 0 picks a free one. Blocks until the scheduler ends."""
        with suppress(ConfigError):  # which ``run`` raises
            self.rpc.serve(bind, port)

    def quit(self) -> None:
        """End after the present round; all slots are free at once."""
        self._quit = True
        self._wake.set()

    def drain(self) -> None:
        """Move all slots to other members, then end; a second call ends at once."""
        if self.gate.ownership is None or self._drain_until is not None:
            self.quit()
            return
        logger.info("draining: the slots move to other members")
        self._drain_until = time.monotonic() + self.settings.drain
        self.gate.ownership.drain()

    def _drain_once(self) -> None:
        """Drain, unless it does already; for callers who may repeat what got no answer.

        Raises:
            Unavailable: it has not joined yet.
        """
        if self.gate.ownership is None:
            raise Unavailable("this scheduler has not joined yet")
        if self._drain_until is None:
            self.drain()

    def _quit_if_allowed(self) -> None:
        """End, if whoever runs this scheduler lets callers end it.

        Raises:
            Fault: they do not.
        """
        if not self.settings.allow_quit:
            remedy = f"send SIGTERM to process {os.getpid()}, or set allow_quit"
            raise Fault(403, f"_quit is off: {remedy}")
        self.quit()

    def _join(self) -> Ownership:
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
            lambda: self._catalogue.weights,
            lambda: self._load,
        )
        ownership.start()
        self._open_jobs(ownership)
        return ownership

    def _open_jobs(self, ownership: Ownership) -> None:
        """Take in what is asked for projects, and claim what there is to do for ours."""
        jobs, events = ownership.jobs, ownership.events
        if jobs is None or events is None:
            return
        self._events = events
        self._dispatcher = Dispatcher(
            self.projectdb, jobs, events, ownership.cluster, self.settings.slots
        )
        self._closer = Closer(jobs, self.gate, self.resultdb)
        self._runner = JobRunner(
            jobs,
            self.desk,
            self.gate,
            lambda: ownership.claimant,
            self._wake.set,
            self._closer.wake,
        )
        self._runner.start()
        self._closer.start()

    def _asked_dispatcher(self) -> Dispatcher:
        if self._dispatcher is None:
            raise Unavailable("this scheduler has not joined yet")
        return self._dispatcher

    def _asked_events(self) -> Events:
        if self._events is None:
            raise Unavailable("this scheduler has not joined yet")
        return self._events

    def _cluster(self) -> Cluster:
        if self.gate.ownership is None:
            raise Unavailable("this scheduler has not joined yet")
        return self.gate.ownership.cluster()

    def _leave(self, orderly: bool) -> None:
        """Hand over and leave; after a failure memory is not to be trusted, so just leave."""
        try:
            self._holdings.give_up(self.gate.held, planned=orderly)
        except ClusterError as error:
            logger.warning("nothing could be handed over: %s", error)
        finally:
            if self._closer is not None:
                self._closer.stop()
            if self._runner is not None:
                self._runner.stop()
            if self.gate.ownership is not None:
                self.gate.ownership.stop()
            self.rpc.stop()
            self._router.close()
            self.queues.close()

    def _loop(self) -> None:
        """Run round after round; nothing that a round meets ends this process.

        pyspider gives up after some failed rounds. Here the next owner of the slots would meet the
        same fault, and the next: members would end one after the other. Only a coordinator that
        failed ends its member.
        """
        while not self._quit and not self._drained():
            self._wake.wait(0 if self._is_busy else self.LOOP_INTERVAL)
            self._wake.clear()
            try:
                self._round()
            except (GateClosed, BadMessage) as error:
                logger.info("round stopped: %s", error)
            except Unavailable:
                continue  # it was said
            except ClusterError:
                raise
            except Exception as error:
                self._bear(error)

    def _round(self) -> None:
        away: DatabaseAway | None = None
        with self._patience.watching():
            try:
                self.run_once()
            except DatabaseAway as error:  # that is not the message queue
                away = error
        if away is not None:
            raise away
        self._exceptions = 0

    def _bear(self, error: Exception) -> None:
        """Tell of a failed round, the first times and now and then, and wait a little."""
        self._is_busy = False
        self._exceptions += 1
        if self._exceptions <= self.EXCEPTION_LIMIT or self._exceptions % SAID_EACH == 0:
            logger.error("round failed, %d in a row", self._exceptions, exc_info=error)
        self._wake.wait(FAILED_PAUSE)

    def _drained(self) -> bool:
        ownership = self.gate.ownership
        if self._drain_until is None or ownership is None:
            return False
        nobody = ownership.alone or time.monotonic() > self._drain_until
        return nobody or not (self.gate.held or ownership.view.owned)
