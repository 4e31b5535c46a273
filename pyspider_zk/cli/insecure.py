"""Option ``--insecure``, and the addresses that pyspider's own classes may listen on."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from pyspider_zk.components.wiring import INSECURE_OPTION
from pyspider_zk.listening import Listener, check_listening
from pyspider_zk.rendering.request import LISTENER as RENDERER
from pyspider_zk.rpc import admission
from pyspider_zk.webui import accounts
from pyspider_zk.workers import fetcher

_XMLRPC = "Let XML-RPC listen on any address without a secret: everybody who reaches it may"
_BROWSER = Listener(
    name="phantomjs",
    option="phantomjs --host",
    opens="make it open any page that this machine reaches, and run JavaScript there",
    guard="nothing, because it has no login",
)
INSECURE_HELP = {
    "scheduler": f"{_XMLRPC} {admission.LISTENER.opens}.",
    "fetcher": f"{_XMLRPC} {fetcher.LISTENER.opens}.",
    "webui": "Listen for others without a login: they can run Python here.",
    "phantomjs": f"Listen for others: they can {_BROWSER.opens}.",
    "renderer": f"Listen for others without a secret: they can {RENDERER.opens}.",
    "all": "Let all that is started here listen on any address without a login or secret:"
    " web UI, XML-RPC and phantomjs.",
}
"""By command. For ``all`` it applies to each of its parts."""

_STOCK = {
    "fetcher": replace(
        fetcher.LISTENER, guard="fetcher-cls to a class of the cluster, which can have a secret"
    ),
    "webui": replace(accounts.LISTENER, guard="--need-auth with --username and --password"),
    "phantomjs": _BROWSER,
}


def insecure_option(command: str) -> click.Option:
    """Return the option for a command; it applies to the whole process."""

    def note(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            ctx.obj[INSECURE_OPTION] = True

    return click.Option(
        ["--insecure", INSECURE_OPTION],
        is_flag=True,
        expose_value=False,
        callback=note,
        help=INSECURE_HELP[command],
    )


def check_stock(command: str, given: Mapping[str, Any], insecure: bool) -> None:
    """Check where one of pyspider's own classes may listen; they do not check it themselves.

    Args:
        given: the arguments of the command's function.

    Raises:
        ConfigError: others could reach it without authentication.
    """
    host = given.get("xmlrpc_host" if "xmlrpc" in given else "host")
    if command not in _STOCK or not given.get("xmlrpc", True) or given.get("get_object"):
        return
    guarded = bool(given.get("need_auth") and given.get("username") and given.get("password"))
    check_listening(_STOCK[command], str(host), guarded=guarded, insecure=insecure)
