"""Webhook of alerts: tells an operator's URL which alerts were raised and cleared."""

import asyncio
import hmac
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from hashlib import sha256
from urllib.parse import urlsplit

from tornado.httpclient import HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from pyspider_zk.cluster.alerts import Alert, AlertChanges, AlertKey, changes
from pyspider_zk.loop import Loop
from pyspider_zk.outage import Outage
from pyspider_zk.pauses import doubling, pause_after
from pyspider_zk.scheduling.census import ClusterLook

logger = logging.getLogger("scheduler")

MOST_MESSAGES = 100  # that wait to be sent
CONNECT_LIMIT, SEND_LIMIT = 5.0, 10.0  # seconds, the second for all of an attempt
MOST_ANSWER = 64 * 1024  # bytes of an answer; nobody reads it
PAUSES = doubling(1.0, 60.0)  # seconds between two attempts
TIME_HEADER = "X-PyspiderZk-Time"
SIGNATURE_HEADER = "X-PyspiderZk-Signature"

_PURPOSE = b"pyspider-zk alerts 1"  # derives a key of its own from the cluster's secret


class AlertWebhook:
    """Webhook of the member that leads; see ADR 54 for what a message has.

    Threads: ``follow`` is called by one and never blocks; a loop of its own sends.

    Args:
        url: where messages are posted; only its host is ever logged.
        secret: the cluster's, for signatures; empty: messages are not signed.
        cluster: a name for it, in messages.
        clock: in seconds, for pauses.

    Attributes:
        loop: sends; its owner starts and stops it. What is not sent by then is lost, as the next
            leader tells everything anew.
    """

    def __init__(
        self,
        url: str,
        secret: str,
        cluster: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._key = signing_key(secret) if secret else b""
        self._cluster = cluster
        self._clock = clock
        self._known: Mapping[AlertKey, Alert] | None = None  # None: nothing was told yet
        self._lock = threading.Lock()  # of what waits
        self._waiting: deque[bytes] = deque()
        self._failures = 0
        self._due = float("-inf")
        host = urlsplit(url).hostname
        self._outage = Outage(
            logger,
            f"the alert webhook at {host} does not accept: %s; it is tried again",
            f"the alert webhook at {host} accepts again",
        )
        self.loop = Loop("alert webhook", self._turn)

    def follow(self, look: ClusterLook | None) -> None:
        """Tell what has changed since the last look.

        Args:
            look: None: this member does not lead, and somebody else tells.
        """
        if look is None:
            self._known = None
            with self._lock:
                self._waiting.clear()
            return
        changed = changes(self._known or {}, look.alerts, is_whole=look.is_whole)
        is_first, self._known = self._known is None, changed.current
        if changed or is_first:
            self._put(self._message(changed))

    def _put(self, message: bytes) -> None:
        with self._lock:
            is_full = len(self._waiting) >= MOST_MESSAGES
            if is_full:
                self._waiting.popleft()
            self._waiting.append(message)
        if is_full:
            logger.error("an alert message is dropped: %d others wait to be sent", MOST_MESSAGES)
        self.loop.wake()

    def _message(self, changed: AlertChanges) -> bytes:
        groups = {
            "raised": changed.raised,
            "cleared": changed.cleared,
            "alerts": changed.current.values(),
        }
        told = {name: [asdict(alert) for alert in group] for name, group in groups.items()}
        return json.dumps({"cluster": self._cluster, "time": time.time(), **told}).encode()

    def _turn(self) -> float | None:
        """Try to send the first message; return how long to wait, None: for another one."""
        message = self._first()
        if message is None:
            return None
        if (pause := self._due - self._clock()) > 0:
            return pause
        try:
            asyncio.run(self._post(message))
        except Exception as error:  # whatever a receiver makes of it
            return self._failed(error)
        self._accepted(message)
        return 0.0

    def _first(self) -> bytes | None:
        with self._lock:
            return self._waiting[0] if self._waiting else None

    def _failed(self, error: Exception) -> float:
        self._outage.failed(error)
        self._failures += 1
        pause = pause_after(self._failures, PAUSES)
        self._due = self._clock() + pause
        return pause

    def _accepted(self, message: bytes) -> None:
        self._outage.answered()
        self._failures = 0
        with self._lock:
            if self._waiting and self._waiting[0] is message:
                self._waiting.popleft()

    async def _post(self, message: bytes) -> None:
        """Send a message; raises unless it is accepted."""
        client = SimpleAsyncHTTPClient(force_instance=True, max_body_size=MOST_ANSWER)
        try:
            await client.fetch(
                HTTPRequest(
                    self._url,
                    method="POST",
                    headers=self._headers(message),
                    body=message,
                    connect_timeout=CONNECT_LIMIT,
                    request_timeout=SEND_LIMIT,
                    follow_redirects=False,
                )
            )
        finally:
            client.close()

    def _headers(self, message: bytes) -> dict[str, str]:
        now = str(int(time.time()))
        headers = {"Content-Type": "application/json", TIME_HEADER: now}
        if self._key:
            headers[SIGNATURE_HEADER] = signature(self._key, now, message)
        return headers


def signing_key(secret: str) -> bytes:
    """Return the key that messages are signed with, derived from the cluster's secret."""
    return hmac.digest(secret.encode(), _PURPOSE, sha256)


def signature(key: bytes, now: str, message: bytes) -> str:
    """Return the signature of a message that is sent at a time."""
    return hmac.new(key, now.encode() + b"." + message, sha256).hexdigest()
