"""Sharing of a process's log: what it warns of also goes to the cluster's log."""

import logging
import os
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread

from pyspider_zk.components.log_records import ids_of, message_of, shortened, traceback_of
from pyspider_zk.errors import CUT, ClusterError, brief
from pyspider_zk.outage import Outage
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.log_lines import LEVELS, MESSAGE, NAME, TRACEBACK, ClusterLog, LogLine
from pyspider_zk.terminal import escaped, escaped_lines, masked

logger = logging.getLogger(__name__)

WAITING = 1_000
"""Lines that wait to be sent; the newest are kept."""

EVERY = 1.0
"""Seconds between two round trips, and those that the end of a process waits for the last one."""

AWAY = 10.0
"""Seconds between two, while the message queue does not take lines."""

_ESCAPED = 4 * TRACEBACK  # characters of a traceback; one may quote a whole page

_REQUESTS = "tornado.access"
"""The logger of the web UI's requests: every stranger can make it warn of one that is wrong."""


class LogSharing(logging.Handler):
    """Handler whose thread sends lines to the cluster's log.

    Threads: any may log, and waits for no I/O. What its own thread logs is not shared, so that no
    line is about itself; nor is what says that a task failed, unless with a traceback: a crawl has
    such a line for each dead link. A fork shares nothing.

    Args:
        component: its kind.
    """

    def __init__(self, log: ClusterLog, component: str) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._component = component
        self._host = escaped(socket.gethostname())
        self._waiting: deque[LogLine] = deque()
        self._dropped = 0
        self._ended = Event()
        self._thread = Thread(target=self._run, name="log sharing", daemon=True)
        self._outage = Outage(
            logger, "what is warned of here is not shared: %s", "what is warned of is shared again"
        )

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Send what waits, if that takes no longer than ``EVERY``, and end."""
        self._ended.set()
        self._thread.join(EVERY)

    def emit(self, record: logging.LogRecord) -> None:
        """Let a record wait to be sent."""
        if record.thread == self._thread.ident or record.name == _REQUESTS:
            return
        try:
            line = self._line(record)
        except Exception:
            self.handleError(record)
            return
        if not line.task or line.traceback:
            self._waiting.append(line)  # the caller holds the handler's lock
            self._drop_oldest()

    def _run(self) -> None:
        while not self._ended.wait(AWAY if self._outage.lasts else EVERY):
            self._send()
        self._send()

    def _send(self) -> None:
        lines, dropped = self._take()
        if not lines:
            return
        try:
            self._log.append([*self._told(dropped), *lines])
        except ClusterError as error:
            self._put_back(lines, dropped)
            self._outage.failed(error)
        except Exception as error:  # no line may end the thread
            self._outage.failed(error)
        else:
            self._outage.answered()

    def _take(self) -> tuple[list[LogLine], int]:
        self.acquire()
        try:
            lines, dropped = list(self._waiting), self._dropped
            self._waiting.clear()
            self._dropped = 0
        finally:
            self.release()
        return lines, dropped

    def _put_back(self, lines: list[LogLine], dropped: int) -> None:
        self.acquire()
        try:
            self._waiting.extendleft(reversed(lines))
            self._dropped += dropped
            self._drop_oldest()
        finally:
            self.release()

    def _drop_oldest(self) -> None:
        while len(self._waiting) > WAITING:
            self._waiting.popleft()
            self._dropped += 1

    def _told(self, dropped: int) -> list[LogLine]:
        """Return the line that tells of those that were dropped, if any were."""
        text = "%d records were dropped: they came faster than they could be shared"
        about = (__name__, logging.WARNING, "", 0, text, (dropped,), None)
        return [self._line(logging.LogRecord(*about))] if dropped else []

    def _line(self, record: logging.LogRecord) -> LogLine:
        message = shortened(message_of(record))
        ids = ids_of(record, message)
        return LogLine(
            at=record.created,
            level=LEVELS[min(record.levelno, logging.CRITICAL) // 10 - 3],
            component=self._component,
            host=self._host[:NAME],
            pid=os.getpid(),
            logger=escaped(record.name)[:NAME],
            message=_beginning(masked(escaped(message)), MESSAGE),
            project=escaped(ids.get("project", ""))[:NAME],
            task=escaped(ids.get("task", ""))[:NAME],
            traceback=_end(masked(escaped_lines(traceback_of(record)[-_ESCAPED:])), TRACEBACK),
        )


@contextmanager
def shared_log(url: str | None, component: str) -> Iterator[None]:
    """Share what this process warns of while the block runs.

    Args:
        url: of the message queue; None: there is none, and nothing is shared.
        component: its kind.

    Raises:
        ConfigError: a cluster cannot use this message queue.
    """
    if url is None:
        yield
        return
    with closing(connect(url, 0, 1)) as queues:
        sharing = LogSharing(queues.log, component)
        loggers = _ends()
        sharing.start()
        for each in loggers:
            each.addHandler(sharing)
        try:
            yield
        except Exception as error:
            sharing.handle(_end_of(component, error))
            raise
        finally:
            for each in loggers:
                each.removeHandler(sharing)
            sharing.stop()


def _end_of(component: str, error: Exception) -> logging.LogRecord:
    """Return the record of why a process ends, which its own log has in another form."""
    trace = None if isinstance(error, ClusterError) else (type(error), error, error.__traceback__)
    text = "this %s ends: %s"
    about = (__name__, logging.ERROR, "", 0, text, (component, brief(error)), trace)
    return logging.LogRecord(*about)


def _ends() -> list[logging.Logger]:
    """Return the loggers that pass their records to no other."""
    known = logging.root.manager.loggerDict.values()
    loggers = [each for each in known if isinstance(each, logging.Logger)]
    return [logging.root, *(each for each in loggers if each.handlers and not each.propagate)]


def _beginning(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - len(CUT)] + CUT


def _end(text: str, most: int) -> str:
    return text if len(text) <= most else CUT + text[len(CUT) - most :]
