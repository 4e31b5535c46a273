"""The logins of the ZooKeeper and the Redis that ``up`` starts.

Their passwords are created once, in files of the cluster's folder that only its user may read. An
empty path means none: the server is not ours, or there is another login.
"""

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from pyspider_zk.config import ENV_PREFIX, Settings
from pyspider_zk.secret_files import read_cluster_secret

USERNAME = "up"


def zookeeper_environ(password_file: str) -> dict[str, str]:
    """Return the environment variables with the login to ZooKeeper."""
    if not password_file:
        return {}
    return {
        f"{ENV_PREFIX}USERNAME": USERNAME,
        f"{ENV_PREFIX}PASSWORD_FILE": password_file,
    }


def with_login(settings: Settings, password_file: str) -> Settings:
    """Return settings with the login to ZooKeeper; reads the password.

    Raises:
        ConfigError: the file is unusable.
    """
    if not password_file:
        return settings
    password = read_cluster_secret(Path(password_file))
    return replace(settings, username=USERNAME, password=password)


def with_password(url: str, password_file: str) -> str:
    """Return the URL of a Redis with the password in the file.

    Raises:
        ConfigError: the file is unusable.
    """
    if not password_file:
        return url
    scheme, _, place = url.partition("://")
    password = quote(read_cluster_secret(Path(password_file)), safe="")
    return f"{scheme}://:{password}@{place.rpartition('@')[2]}"
