"""Queue in a Redis whose master is named by sentinels.

Added by pyspider-zk.
"""

from pyspider.message_queue.redis_queue import RedisQueue
from pyspider.message_queue.sentinel_url import read
from redis.sentinel import Sentinel


class SentinelQueue(RedisQueue):
    """pyspider's queue; each new connection asks the sentinels for the master.

    Attributes:
        url: where it is, with passwords.
    """

    def __init__(self, name, url, maxsize=0, lazy_limit=True):
        super().__init__(name, maxsize=maxsize, lazy_limit=lazy_limit)
        self.url = url
        self.redis = _master(url)


def _master(url):
    """Return a client of the master, which connects at its first use."""
    said = read(url)
    tls = {}
    if said.tls:
        tls = {**said.options, "ssl": True, "ssl_cert_reqs": "required", "ssl_check_hostname": True}
    login = {"username": said.sentinel_username, "password": said.sentinel_password}
    sentinels = Sentinel(said.sentinels, sentinel_kwargs={**login, **tls})
    return sentinels.master_for(
        said.master_name, db=said.database, username=said.username, password=said.password, **tls
    )


Queue = SentinelQueue
