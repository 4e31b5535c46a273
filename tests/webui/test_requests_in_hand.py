"""Which requests the web UI is answering, and since when."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from pyspider_zk.metrics.families import FAMILIES, Source
from pyspider_zk.webui.instance import ClusterWebUI, RequestsInHand
from tests.metrics.reading import family_of, parsed, undeclared
from tests.metrics.requests import get
from tests.support.live_cluster import LiveCluster
from tests.support.ports import own_port


def test_a_request_is_in_hand_until_it_is_answered() -> None:
    now = [0.0]
    seen: list[float] = []

    def app(_environ: Any, _start: Any) -> Iterator[bytes]:
        now[0] += 7
        seen.append(requests.age)
        return iter([b"answer"])

    requests = RequestsInHand(app, lambda: now[0])
    assert requests.age == 0
    assert list(requests({}, None)) == [b"answer"]
    assert (seen, requests.age) == ([7], 0)


def test_a_request_that_fails_is_not_in_hand() -> None:
    def app(_environ: Any, _start: Any) -> Any:
        raise ValueError("wrong")

    now = [0.0]
    requests = RequestsInHand(app, lambda: now[0])
    with pytest.raises(ValueError, match="wrong"):
        requests({}, None)
    now[0] = 9
    assert requests.age == 0


@pytest.mark.zk
def test_a_web_ui_serves_metrics_while_it_runs(
    ui: ClusterWebUI, cluster: LiveCluster, eventually: Callable[..., Any]
) -> None:
    port = own_port()
    settings = replace(cluster.settings, metrics=f"127.0.0.1:{port}")
    with ui.joined(settings, cluster.queues()):
        eventually(lambda: get(port, "/readyz").status == 200)
        found = parsed(get(port, "/metrics").text)
    names = {family.name for series in found if (family := family_of(series.name))}
    assert names == {each.name for each in FAMILIES if each.source is Source.ALL}
    assert undeclared(found) == []
    with pytest.raises(ConnectionRefusedError):
        get(port, "/healthz")
