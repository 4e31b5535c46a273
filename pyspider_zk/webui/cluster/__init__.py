"""The operations page below ``/cluster``: an application of its own beside pyspider's pages."""

from pyspider_zk.webui.cluster.pages import PREFIX, create_pages

__all__ = ["PREFIX", "create_pages"]
