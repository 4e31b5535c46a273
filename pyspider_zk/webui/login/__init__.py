"""The login page of the web UI."""

from pyspider_zk.webui.login.pages import PREFIX, create_login

__all__ = ["PREFIX", "create_login"]
