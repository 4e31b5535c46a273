"""The HTTP API below ``/api/v1``: an application of its own beside pyspider's pages."""

from pyspider_zk.webui.api.application import PREFIX, create_api
from pyspider_zk.webui.api.backend import Backend

__all__ = ["PREFIX", "Backend", "create_api"]
