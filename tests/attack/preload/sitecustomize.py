"""Doors of the product opened on purpose, to show that the attacks find them.

Python runs this at the start of each process that has this folder in its path.
"""

from pyspider_zk.rpc import admission
from pyspider_zk.rpc.admission import Caller
from pyspider_zk.webui import access, browsers
from pyspider_zk.webui.users import Role

access.needed_role = lambda *_: Role.VIEWER  # type: ignore[assignment]
browsers.is_foreign = lambda *_: False  # type: ignore[assignment]
browsers.Hosts.know = lambda *_: True  # type: ignore[method-assign, assignment]
admission.CallAdmission.admit = lambda *_: admission.Admitted(  # type: ignore[method-assign, assignment]
    Caller("attacker", proven=True)
)
