"""pyspider's web UI, fed by the whole cluster."""

from pyspider_zk.webui.instance import ClusterWebUI, app

__all__ = ["ClusterWebUI", "app"]
