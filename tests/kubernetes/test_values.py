"""Hostile and mistaken values are refused, with what is wrong; a value is never markup."""

from typing import Any

import pytest

from tests.kubernetes.chart import CHART, RefusedValues, render

INJECTION = "x\n      hostNetwork: true"


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"schedulers": {"replicas": 3}}, "schedulers"),
        ({"scheduler": {"replicas": 0}}, "scheduler.replicas"),
        ({"scheduler": {"replicas": "3"}}, "scheduler.replicas"),
        ({"scheduler": {"replicas": 10**9}}, "scheduler.replicas"),
        ({"scheduler": {"drain": -1}}, "scheduler.drain"),
        ({"scheduler": {"drain": 2.5}}, "scheduler.drain"),
        ({"image": {"repository": INJECTION}}, "image.repository"),
        ({"image": {"tag": INJECTION}}, "image.tag"),
        ({"image": {"tag": '1"'}}, "image.tag"),
        ({"image": {"pullPolicy": "Sometimes"}}, "image.pullPolicy"),
        ({"image": {"pullSecrets": ["a: b"]}}, "image.pullSecrets"),
        ({"storageClass": INJECTION}, "storageClass"),
        ({"redis": {"storage": "8Gi }"}}, "redis.storage"),
        ({"redis": {"port": 0}}, "redis.port"),
        ({"postgresql": {"enabled": "no"}}, "postgresql.enabled"),
        ({"fetcher": {"resources": {"limits": {"memory": INJECTION}}}}, "fetcher.resources.limits"),
        ({"fetcher": {"resources": {"limit": {}}}}, "fetcher.resources"),
        ({"zookeeper": {"enabled": False}}, "zookeeper.hosts"),
        ({"zookeeper": {"hosts": "zk1:2281"}}, "zookeeper.hosts"),
        ({"zookeeper": {"enabled": False, "hosts": "zk1:2281 - port: 22"}}, "zookeeper.hosts"),
        ({"webui": {"hosts": ["crawl.example.org/"]}}, "webui.hosts"),
        ({"webui": {"proxies": ["0.0.0.0/0"]}}, "webui.proxies"),
        ({"webui": {"proxies": ["ingress-nginx"]}}, "webui.proxies"),
        ({"webui": {"from": [{}]}}, "webui.from"),
        ({"webui": {"from": [{"everybody": {}}]}}, "webui.from"),
        ({"networkPolicy": {"crawl": [{}]}}, "networkPolicy.crawl"),
        ({"config": {"taskdb": "mysql://u:p@h/t"}}, "config"),
        ({"config": {"zookeeper": {"secret": "a secret that all can read"}}}, "config.zookeeper"),
        ({"config": {"zookeeper": {"alert_webhook": "https://h/key"}}}, "config.zookeeper"),
        ({"config": {"zookeeper": {"drain": 600}}}, "config.zookeeper"),
        ({"config": {"webui": {"password": "a password that all can read"}}}, "config.webui"),
        ({"monitoring": {"from": []}}, "monitoring.from"),
        ({"autoscaling": {"scheduler": {"age": 0}}}, "autoscaling.scheduler.age"),
        (
            {"autoscaling": {"enabled": True, "fetcher": {"max": 2}}, "fetcher": {"replicas": 3}},
            "autoscaling.fetcher",
        ),
        ({"config": {"zookeeper": {"metrics": "0.0.0.0:1"}}}, "config.zookeeper"),
        ({"redis": {"enabled": False}}, "secrets.create"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(values: dict[str, Any], named: str) -> None:
    with pytest.raises(RefusedValues) as refused:
        render(values)
    assert named in str(refused.value)


@pytest.mark.parametrize("name", ["scheduler", "fetcher", "processor"])
def test_without_autoscaling_its_limits_are_none(name: str) -> None:
    assert render({name: {"replicas": 100}})


def test_a_release_s_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(RefusedValues, match="more than 40 characters"):
        render({}, CHART, "a" * 41)


def test_a_text_in_config_json_stays_a_text() -> None:
    hostile = 'x"\n    }\nkind: Pod\n---\n{{ .Release.Name }}'
    plain = {(each["kind"], each["metadata"]["name"]) for each in render({})}
    given = render({"config": {"zookeeper": {"advertise": hostile}}})
    assert {(each["kind"], each["metadata"]["name"]) for each in given} == plain
