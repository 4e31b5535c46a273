"""The operations page below ``/cluster``: a separate application beside pyspider's pages."""

from pyspider_zk.webui.cluster.pages import PREFIX, create_pages

__all__ = ["PREFIX", "create_pages"]
