"""What is posted to a component of the cluster, as Tornado's clients take it."""

import secrets
import time
from typing import Any
from urllib.parse import urlsplit

from pyspider_zk.config import Settings
from pyspider_zk.rpc.proof import Call, Prover, digest


def posted(body: bytes, address: str, settings: Settings) -> dict[str, Any]:
    """Return the arguments of a request with some JSON, which proves the secret if there is one.

    Args:
        address: with the port; the scheme may be left out.
    """
    headers = {"Content-Type": "application/json"}
    if settings.secret:
        host = urlsplit(address if "://" in address else f"//{address}").netloc
        call = Call(host, int(time.time()), secrets.token_hex(16), "", digest(body))
        headers |= {"Host": host, "Authorization": Prover(settings.secret).header(call)}
    return {"body": body, "headers": headers, "ca_certs": settings.xmlrpc_tls_ca or None}
