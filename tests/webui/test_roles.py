"""Each role may do what it is for, and what those below it may."""

import pytest

from pyspider_zk.webui.access import needed_role
from pyspider_zk.webui.users import Role


@pytest.mark.parametrize(
    ("method", "path", "needed"),
    [
        ("GET", "/", Role.VIEWER),
        ("HEAD", "/debug/p/save", Role.VIEWER),
        ("PROPFIND", "/dav/", Role.VIEWER),
        ("POST", "/update", Role.OPERATOR),
        ("POST", "/run", Role.OPERATOR),
        ("POST", "/api/v1/batches", Role.OPERATOR),
        ("DELETE", "/api/v1/batches/x", Role.OPERATOR),
        ("POST", "/debug/p/save", Role.ADMIN),
        ("POST", "/debug/p/run", Role.ADMIN),
        ("PUT", "/dav/p.py", Role.ADMIN),
        ("MOVE", "/dav/p.py", Role.ADMIN),
        ("POST", "/update/", Role.ADMIN),
        ("POST", "//update", Role.ADMIN),
        ("POST", "/api/v1", Role.ADMIN),
        ("POST", "/api/v12/x", Role.ADMIN),
        ("get", "/", Role.ADMIN),
        ("FROB", "/", Role.ADMIN),
    ],
)
def test_a_request_needs_a_role_and_an_unknown_one_the_highest(
    method: str, path: str, needed: Role
) -> None:
    assert needed_role(method, path) is needed


def test_the_roles_are_in_order() -> None:
    assert [[mine.may(needed) for needed in Role] for mine in Role] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
