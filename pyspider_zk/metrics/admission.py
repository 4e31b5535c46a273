"""Admission to metrics: who may read them, on which address."""

import hmac
import logging
from urllib.parse import urlsplit

from pyspider_zk.listening import Listener, check_listening, is_loopback

logger = logging.getLogger(__name__)

SCHEME = "Bearer "

LISTENER = Listener(
    name="metrics",
    option="metrics",
    opens="read how much is crawled, by which processes",
    guard="metrics_token_file",
    insist="insecure",
)


class ScrapeAdmission:
    """Admission of requests for metrics; probes of health need none. Threads: any.

    Args:
        token: that scrapers present; empty: none.
        insecure: may listen on any address without one.
    """

    def __init__(self, token: str, insecure: bool) -> None:
        self._token = token.encode()
        self._insecure = insecure

    def listen(self, host: str) -> None:
        """Check that metrics may be served on a host.

        Raises:
            ConfigError: everybody could read them.
        """
        guarded = bool(self._token)
        check_listening(LISTENER, host, guarded=guarded, insecure=self._insecure)
        if not guarded and not is_loopback(host):
            logger.warning("insecure: whoever reaches %s may %s", host, LISTENER.opens)

    def refusal(self, host: str, authorization: str) -> int:
        """Return the HTTP status to refuse a request with; 0: it is admitted.

        Args:
            host: its header. Without a token only a loopback name is served: a page that gave this
                address a name of its own (DNS rebinding) could read the answer.
            authorization: its header.
        """
        if self._token:
            given = authorization.removeprefix(SCHEME).strip().encode("utf-8", "replace")
            proven = authorization.startswith(SCHEME) and hmac.compare_digest(given, self._token)
            return 0 if proven else 401
        return 0 if self._insecure or is_loopback(_name(host)) else 421


def _name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
