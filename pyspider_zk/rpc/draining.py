"""Request to a member to drain."""

from xmlrpc.client import Fault

from pyspider_zk.cluster.records import Member
from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.rpc.caller import Caller, calling
from pyspider_zk.rpc.client import call, credentials_of


def request_drain(number: int, member: Member, settings: Settings, who: str) -> None:
    """Ask a member to move its slots to others and to end; a repeated request changes nothing.

    Blocks for some seconds at most.

    Raises:
        Unavailable: it does not answer, or refuses.
    """
    try:
        with calling(Caller(who)):
            call(member, "local_drain", credentials=credentials_of(settings))
    except (OSError, Fault) as error:
        raise Unavailable(
            f"member {number} cannot be asked to drain: {error}; `pyspider-zk evict {number}`"
            " moves its slots away without it"
        ) from error
