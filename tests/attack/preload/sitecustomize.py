"""Doors of the product opened on purpose, to show that the attacks find them.

Python runs this at the start of each process that has this folder in its path.
"""

from pyspider_zk.core.roles import Role
from pyspider_zk.hooks import rpc_entry
from pyspider_zk.hooks.caller import Caller
from pyspider_zk.webui import access, guard

access.needed_role = lambda *_: Role.VIEWER  # type: ignore[assignment]
guard.is_foreign = lambda *_: False  # type: ignore[assignment]
guard.Hosts.know = lambda *_: True  # type: ignore[method-assign, assignment]
rpc_entry.Entry.admit = lambda *_: rpc_entry.Admitted(  # type: ignore[method-assign, assignment]
    Caller("attacker", proven=True)
)
