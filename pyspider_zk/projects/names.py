"""Names of projects, as pyspider allows them."""

import re

from pyspider_zk.errors import BadMessage

PROJECT_NAME_LIMIT = 64
_PROJECT_NAME = re.compile(r"\w+")


def check_project_name(name: object) -> str:
    """Return the name if pyspider allows it for a project.

    The rule is pyspider's ``verify_project_name``: word characters only, 64 at most. The empty
    name, which that function lets through, is refused as well.

    Raises:
        BadMessage: naming the fault.
    """
    if not isinstance(name, str) or not _PROJECT_NAME.fullmatch(name):
        raise BadMessage(
            f"project name {name!r} is not allowed: use letters, digits and _ only, at least one"
        )
    if len(name) > PROJECT_NAME_LIMIT:
        raise BadMessage(
            f"project name {name!r} is not allowed: it has {len(name)} characters,"
            f" the limit is {PROJECT_NAME_LIMIT}"
        )
    return name


def is_project_name(name: str) -> bool:
    """Return whether pyspider allows a name for a project.

    Rows that were written past pyspider's editor may have any.
    """
    try:
        check_project_name(name)
    except BadMessage:
        return False
    return True
