"""What pyspider's pages refuse to take in."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspider.webui.app import app as stock_app

from pyspider_zk.jobs.operations import GROUP_LIMIT
from pyspider_zk.webui.instance import ClusterWebUI
from pyspider_zk.webui.limits import limited

REFUSED = {
    "rate": ["nan/nan", "1/inf", "-1/3", "1", "1/2/3", "fast/3", "/", ""],
    "status": ["", "RUNNING ", "GONE", "\x00"],
    "group": ["g" * (GROUP_LIMIT + 1)],
}
TAKEN = {"rate": "2.5/10", "status": "RUNNING", "group": "daily, lock"}


@pytest.fixture
def client(ui: ClusterWebUI) -> Iterator[Any]:
    row = {"status": "STOP", "group": "daily", "script": "", "rate": 1, "burst": 3}
    ui.config["projectdb"].insert("shop", {**row, "comments": ""})
    ui.config.update(scheduler_rpc=None, login_to_change=False)
    with limited(stock_app):
        yield stock_app.test_client()


def update(client: Any, name: str, value: str) -> Any:
    return client.post("/update", data={"pk": "shop", "name": name, "value": value})


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values]
)
def test_a_value_that_no_project_can_have_is_refused(
    client: Any, ui: ClusterWebUI, name: str, value: str
) -> None:
    before = ui.config["projectdb"].get("shop")

    answer = update(client, name, value)

    assert answer.status_code == 400
    assert name in answer.text
    assert ui.config["projectdb"].get("shop") == before


@pytest.mark.parametrize(("name", "value"), TAKEN.items())
def test_others_are_written(client: Any, name: str, value: str) -> None:
    assert update(client, name, value).status_code == 200


@pytest.mark.parametrize("page", ["/active_tasks", "/results/dump/shop.json"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("limit", "many"),
        ("limit", ""),
        ("limit", "1e3"),
        ("limit", "9" * 10),
        ("limit", "\u0661"),
        ("offset", "True"),
        ("offset", "9" * 5000),
        ("project", "a\0b"),
        ("project", "no such"),
    ],
)
def test_a_page_of_what_cannot_be_is_refused(client: Any, page: str, name: str, value: str) -> None:
    answer = client.get(page, query_string={name: value})

    assert answer.status_code == 400
    assert name in answer.text
