"""The queues behind a URL."""

from pyspider_zk.errors import ConfigError
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.redis_history import RedisHistory
from pyspider_zk.queues.redis_inbox import RedisInbox
from pyspider_zk.queues.redis_link import RedisLink
from pyspider_zk.queues.redis_log import RedisLog
from pyspider_zk.queues.redis_parking import RedisParkingLot
from pyspider_zk.queues.redis_records import RedisSlotRecords
from pyspider_zk.queues.redis_streams import RedisSlotQueues
from pyspider_zk.queues.redis_taken import RedisWorkQueues
from pyspider_zk.queues.redis_typed_keys import TypedKeys
from pyspider_zk.queues.redis_url import SCHEMES
from pyspider_zk.queues.redis_wake_ups import RedisSlotWakeUps
from pyspider_zk.queues.slot_queues import Wait

_REMEDY = (
    "a cluster needs a message queue that all processes share: --message-queue redis://host:6379/0"
)
_NO_SCHEME = "its URL has no scheme, redis:// is supported"


def connect(url: str | None, limit: int, slots: int, wait: Wait | None = None) -> Queues:
    """Return the queues behind a URL, without any I/O yet.

    Args:
        url: pyspider's ``message_queue``.
        limit: the most messages of one slot queue, pyspider's ``queue_maxsize``; 0: no limit.
        slots: how many slots the cluster has.
        wait: how publishers wait for room, see `RedisSlotQueues`.

    Raises:
        ConfigError: no URL, or one that a cluster cannot use.
    """
    if not url:
        raise ConfigError([_REMEDY])
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme not in SCHEMES:
        found = f"{scheme}:// is not supported, redis:// is" if scheme else _NO_SCHEME
        raise ConfigError([f"message queue: {found}; {_REMEDY}"])
    keys = TypedKeys(RedisLink(url))
    return Queues(
        RedisSlotQueues(keys, limit, wait),
        RedisInbox(keys, slots, limit),
        RedisSlotRecords(keys),
        RedisParkingLot(keys),
        RedisSlotWakeUps(keys),
        RedisWorkQueues(keys),
        RedisHistory(keys),
        RedisLog(keys),
    )
