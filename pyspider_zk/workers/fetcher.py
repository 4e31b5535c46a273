"""pyspider's fetcher, whose unfinished tasks stay in Redis, and return to their queue."""

import functools
import itertools
import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4
from xmlrpc.client import Binary, Fault

import umsgpack  # type: ignore[import-untyped]
from pyspider.fetcher.tornado_fetcher import Fetcher
from pyspider.libs.utils import decode_unicode_obj

from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.components.identity import presence
from pyspider_zk.components.monitoring import Monitoring, monitored
from pyspider_zk.components.signals import on_signals
from pyspider_zk.components.wiring import (
    current_data_path,
    current_settings,
    is_one_of_several,
)
from pyspider_zk.config import Settings
from pyspider_zk.errors import BadMessage, ClusterError, ConfigError, brief
from pyspider_zk.listening import Listener
from pyspider_zk.loop import Loop
from pyspider_zk.metrics.health import Health
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.consumer import LOOK, Consumer, Taken
from pyspider_zk.queues.packs import NO_ANSWER, check_fetchable, check_named, failed_page, named
from pyspider_zk.queues.resilient import ResilientQueue, SendBuffer
from pyspider_zk.rpc.admission import admission_of
from pyspider_zk.rpc.client import posted
from pyspider_zk.rpc.server import RpcServer, limits_of
from pyspider_zk.rpc.tls import server_tls
from pyspider_zk.rpc.values import xmlrpc_value
from pyspider_zk.workers.work_meter import WorkMeter

logger = logging.getLogger("fetcher")

PATIENCE = 5.0
"""Seconds for sending the rest at the end, if its queue is full or unavailable."""

MOST_TAKEN = 10
"""Tasks that are taken in one call, at most: other fetchers want some."""

MOST_DEATHS = 10
"""Fetchers that may die while they fetch a task; mostly it is another's fault."""

HOUR = 3600.0
"""Seconds after which projects without pages are no longer counted; the longest window."""

PAUSE = 0.001
"""Seconds between two looks for tasks, at least."""

LISTENER = Listener(
    name="the fetcher's XML-RPC",
    option="--xmlrpc-host",
    opens="make it fetch anything that this machine reaches",
    guard="a secret (secret_file, the same for the whole cluster)",
)

_LEFT = "the queue is full or unavailable: %d pages are fetched again"


class ClusterFetcher(Fetcher):
    """Fetches as pyspider does.

    If the queue is full or unavailable, results are kept and sent later; meanwhile no task is
    taken, so at most as many results are kept as pages are fetched at the same time. What is not
    finished when it ends goes back to its queue, also when it was killed.

    Threads: ``run`` owns it; ``quit``, ``end`` and XML-RPC calls may come from any.
    """

    inqueue: Any
    outqueue: Any

    def __init__(self, *args: Any, settings: Settings | None = None, **kwargs: Any) -> None:
        self.settings = settings or current_settings()
        self.page_limit = self.settings.page_limit
        self.page_memory = self.settings.page_memory
        self.forbidden_networks = self.settings.forbidden_networks
        super().__init__(*args, **kwargs)
        self._back_off = BackOff(logger, "results are kept and no tasks taken")
        self._name = uuid4().hex
        if self.inqueue is not None:
            self.inqueue = Consumer(
                self.inqueue,
                self._back_off,
                check_named,
                logger,
                self._name,
                refuse=self._give_up,
                deaths=MOST_DEATHS,
            )
        if self.outqueue is not None:
            self.outqueue = SendBuffer(ResilientQueue(self.outqueue, self._back_off))
            self.http_client.kept = lambda: self.outqueue.kept_bytes
        self._meter = WorkMeter(
            ComponentKind.FETCHER, lambda: self.inqueue.passed_over if self.inqueue else 0
        )
        self._data = current_data_path()
        health = Health(lambda: self._meter.pulse.age, self.settings.hang, self._parts)
        self._monitoring = Monitoring(ComponentKind.FETCHER, health, [self._meter.metrics])
        self._under_way: dict[int, Taken] = {}  # by id(): a task may come twice
        self._counting = threading.Lock()  # of pyspider's counters
        self._trimmed = time.time()
        self._empty_until = float("-inf")
        self._is_due = False
        self._drain_until: float | None = None
        self._listener = Loop("fetcher listens", self._listen)
        self._serve_error: Exception | None = None
        self._any_port = is_one_of_several()
        self.rpc = RpcServer(
            self._functions(),
            admission_of(self.settings, LISTENER),
            functools.partial(server_tls, self.settings),
            limits_of(self.settings),
        )

    def take_tasks(self) -> None:
        """Fetch what there is, as far as there is room.

        What was fetched is sent before. Called by the event loop: often, for room comes
        unannounced, once for all fetches that ended at the same time, and when the queue got a
        task. A queue that was found empty is left alone until then.
        """
        self._is_due = False
        self._meter.pulse.beat()
        self.http_client.resume()
        if self.outqueue is not None:
            self.outqueue.send()
        if self._drain_until is None:
            self._take()
        elif self._is_drained() or time.monotonic() > self._drain_until:
            self.quit()
        if self.inqueue is not None:
            self.inqueue.settle()

    def _take(self) -> None:
        if self.inqueue is None or self.outqueue is None or time.monotonic() < self._empty_until:
            return
        while not self._quit and not self.outqueue.full() and self.http_client.free_size() > 0:
            found = self.inqueue.take(min(MOST_TAKEN, self.http_client.free_size()))
            if not found:
                self._empty_until = time.monotonic() + LOOK
                return
            for number, body in found:
                task = decode_unicode_obj(body)
                self._under_way[id(task)] = Taken(number, task)
                self._meter.begin(id(task), task)
                self.fetch(task)

    def posted(self, body: bytes) -> dict[str, Any]:
        """Return how the renderer is asked: with a proof of the secret, if there is one."""
        return posted(body, self.phantomjs_proxy, self.settings)

    def _listen(self) -> float:
        """Wait for tasks, and have them taken; return the pause. Runs in a thread of its own."""
        self.inqueue.wait(LOOK)
        if not self._listener.ends:
            self.ioloop.add_callback(self._wake_up)
        return PAUSE

    def _wake_up(self) -> None:
        self._empty_until = float("-inf")
        self.take_tasks()

    def fetch(self, task: dict[str, Any], callback: Any = None) -> Any:
        """Fetch a task; without a callback, one that was taken from the queue."""
        if callback is not None:
            return super().fetch(task, callback)
        if fault := _fault(task):
            return self._give_up(task, fault)
        fetching = super().fetch(task)
        if self.async_mode:
            self.ioloop.add_future(fetching, functools.partial(self._ended, task))
        return fetching

    def send_result(self, type: Any, task: dict[str, Any], result: Any) -> None:  # noqa: A002, ARG002 - pyspider's
        """Send a result to the processor; one that cannot be sent becomes a failed one.

        Without a queue only the caller waits for it: the web UI fetches for its editor that way.
        """
        if self.outqueue is None:
            return
        try:
            self._hand_over(task, (task, self._fitting(task, result)))
        except Exception as error:  # which messages cannot be sent differs from queue to queue
            self._give_up(task, error)

    def _hand_over(self, task: Mapping[str, Any], page: Any) -> None:
        """Send a page; once it is in the queue, its task is done."""
        taken = self._under_way.get(id(task))
        if taken is None:
            self.outqueue.put(page)
            return
        self.outqueue.put(page, functools.partial(self.inqueue.acknowledge, taken.number))
        self._end(task)

    def _end(self, task: Mapping[str, Any]) -> None:
        self._meter.end(id(task))
        del self._under_way[id(task)]

    def _fitting(self, task: dict[str, Any], result: Any) -> Any:
        """Return a result; a failed one if its page, from a task or a browser, is too large."""
        content = result.get("content") or ""
        size = len(content.encode(errors="replace") if isinstance(content, str) else content)
        if size <= self.page_limit:
            return result
        error = f"the page has {size} bytes, the limit is {self.page_limit} (page_limit)"
        logger.error("fetch %s:%s failed: %s", task["project"], task["taskid"], error)
        return failed_page(task, error)

    def on_result(self, type: str, task: dict[str, Any], result: Any) -> None:  # noqa: A002 - pyspider's
        """Count a fetch, as pyspider does and for our metrics."""
        with self._counting:
            super().on_result(type, task, result)
            if time.time() > self._trimmed + HOUR:
                self._trimmed = time.time()
                for counters in self._cnt.values():
                    counters.trim()
        self._meter.count(result.get("time") or 0.0, ok=result.get("status_code", NO_ANSWER) < 400)

    def _ended(self, task: dict[str, Any], fetching: Any) -> None:
        """Report a fetch that ended without a result to the processor."""
        if id(task) in self._under_way:
            self._give_up(task, fetching.exception() or "ended without a result")
        if not self._is_due:
            self._is_due = True
            self.ioloop.add_callback(self.take_tasks)

    def _give_up(self, task: dict[str, Any], error: object) -> dict[str, Any]:
        """Report a failed fetch to the processor, and return the reported page."""
        logger.error("fetch %s:%s failed: %s", task["project"], task["taskid"], brief(error))
        page = failed_page({**named(task)}, error)
        try:
            if self.outqueue is not None:
                self._hand_over(task, (named(task), page))
        except Exception:
            logger.exception("%(project)s:%(taskid)s waits for its time-out", task)
            if taken := self._under_way.get(id(task)):
                self.inqueue.acknowledge(taken.number)
                self._end(task)
        return page

    def run(self) -> None:
        """Work until ``quit``, or until ``end`` or SIGTERM and what is under way is fetched.

        Raises:
            ClusterError: the cluster cannot be joined, or XML-RPC cannot be served as configured.
        """
        with (
            on_signals({signal.SIGTERM: self.end}),
            monitored(self.settings, self._monitoring, self._data),
            presence(
                self.settings,
                ComponentKind.FETCHER,
                consumer=self._name,
                report=self._meter.report,
            ),
        ):
            if self.inqueue is not None:
                self._listener.start()
            super().run()
            self._send_rest()
            if self.inqueue is not None:
                self.inqueue.give_back()
        if self._serve_error is not None:
            raise self._serve_error

    def close(self) -> None:
        """Free the event loop and the connections."""
        self._listener.stop(2 * LOOK)
        super().close()

    def end(self) -> None:
        """Take no more tasks, and quit when the results of those under way are sent.

        After ``drain`` seconds, or when it is called again, it quits, too.
        """
        if self._drain_until is not None:
            self.quit()
            return
        logger.info("draining: %d pages are still being fetched", len(self._under_way))
        self._drain_until = time.monotonic() + self.settings.drain
        self.ioloop.add_callback(self.take_tasks)

    def _is_drained(self) -> bool:
        """Send what results it can; return whether none is left and nothing is under way."""
        return (self.outqueue is None or self.outqueue.send()) and not self._under_way

    def quit(self) -> None:
        """End ``run`` and XML-RPC at once; what is under way goes back to its queue."""
        super().quit()
        self._listener.end()
        self.rpc.stop()

    def xmlrpc_run(
        self,
        port: int = 24444,
        bind: str = "127.0.0.1",
        logRequests: bool = False,  # noqa: ARG002, N803 - pyspider's signature
    ) -> None:
        """Serve XML-RPC until ``quit``. If that fails, ``run`` ends and raises the error."""
        try:
            self.rpc.serve(bind, port, or_any=self._any_port)
        except ConfigError as error:
            self._serve_error = error
        except OSError as error:
            remedy = "choose another --xmlrpc-port, 0 for any"
            self._serve_error = ClusterError(f"XML-RPC cannot listen ({error}): {remedy}")
        if self._serve_error is not None:
            self.quit()

    def _functions(self) -> Mapping[str, Callable[..., Any]]:
        """Return the functions of XML-RPC, by pyspider's names."""
        return {
            "_quit": self._quit_if_allowed,
            "size": self.size,
            "fetch": self._fetched,
            "counter": self._counted,
        }

    def _quit_if_allowed(self) -> None:
        """End, if the settings allow callers to end this fetcher.

        Raises:
            Fault: they do not.
        """
        if not self.settings.allow_quit:
            remedy = f"send SIGTERM to process {os.getpid()}, or set allow_quit"
            raise Fault(403, f"_quit is off: {remedy}")
        self.quit()

    def _fetched(self, task: Any) -> Binary:
        """Fetch a task and return its page, packed; blocks as long as that takes.

        Raises:
            Fault: it cannot be fetched, or not yet.
        """
        if self.inqueue is not None and not self._running:
            raise Fault(503, "fetch: this fetcher is starting, or ends")
        try:
            check_fetchable(task)
        except BadMessage as error:
            raise Fault(400, f"fetch: the task {error}") from error
        return Binary(umsgpack.packb(self.sync_fetch(task)))

    def _counted(self, window: str, value: str) -> Any:
        """Return a window (5m, 1h) of the counters by project; ``value`` is sum or avg.

        Raises:
            Fault: there is none.
        """
        if (window, value) not in itertools.product(self._cnt, ("sum", "avg")):
            raise Fault(400, f"there is no counter {window!r:.80} {value!r:.80}")
        with self._counting:
            return xmlrpc_value(self._cnt[window].to_dict(value))

    def _parts(self) -> dict[str, bool]:
        """Return whether each part works that fetching needs, as far as is known."""
        return {"message_queue": not self._back_off.is_away}

    def _send_rest(self) -> None:
        """Send the results that are still kept."""
        try:
            self.outqueue.flush(PATIENCE)
        except queue.Full:
            logger.warning(_LEFT, self.outqueue.kept)


def _fault(task: Mapping[str, Any]) -> str | None:
    """Return what of a task is no mapping though pyspider asks it for keys, if anything is."""
    track = task.get("track", {})
    report = track.get("fetch", {}) if isinstance(track, dict) else {}
    headers = report.get("headers") if isinstance(report, dict) else None
    parts = {"fetch": task.get("fetch", {}), "track": track, "track: fetch": report}
    parts["track: headers"] = headers or {}
    bad = (name for name, part in parts.items() if not isinstance(part, dict))
    return next((f"{name} must be a mapping, not {parts[name]!r:.80}" for name in bad), None)
