"""pyspider's web UI, fed by the whole cluster.

It is loaded on first use: every process of a cluster imports some of this package, and the
web UI's libraries would be more than half of what a scheduler loads.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspider_zk.webui.instance import ClusterWebUI, app

__all__ = ["ClusterWebUI", "app"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pyspider_zk.webui import instance

    return getattr(instance, name)
