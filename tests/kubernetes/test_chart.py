"""The chart renders, for many values, what Kubernetes takes and what our rules demand."""

import shutil
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import kubernetes_validate
import pytest
import yaml

from pyspider_zk.components.monitoring import Monitoring, monitored
from pyspider_zk.config import Settings
from pyspider_zk.metrics.health import Health
from tests.kubernetes.chart import CHART, NAMESPACE, RELEASE, ROOT, helm, render
from tests.kubernetes.rendering import Rendering
from tests.kubernetes.rules import RULES, Rule
from tests.support.ports import own_port

CLUSTER = f"{RELEASE}-cluster"
OWN_SERVERS: dict[str, Any] = {
    "secrets": {"create": False},
    "zookeeper": {"enabled": False, "hosts": "zk1.example.org:2281,zk2.example.org:2282"},
    "redis": {"enabled": False, "port": 6380},
    "postgresql": {"enabled": False, "port": 5433},
}
EVERYTHING: dict[str, Any] = {
    "image": {
        "repository": "registry.example.org:5000/crawl/pyspider-zk",
        "tag": "1.2.3",
        "serversTag": "1.2.0",
        "pullPolicy": "Always",
        "pullSecrets": ["registry"],
    },
    "config": {"zookeeper": {"lease": 6, "root": "/crawl"}, "fetcher": {"timeout": 30}},
    "scheduler": {"replicas": 5, "drain": 120},
    "processor": {"replicas": 20},
    "renderer": {"enabled": True, "pages": 4, "memory": 1024},
    "webui": {
        "hosts": ["crawl.example.org"],
        "proxies": ["10.244.0.0/16", "192.0.2.1", "2001:db8::/32"],
        "from": [
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}
        ],
    },
    "storageClass": "fast",
    "monitoring": {"operator": True},
    "autoscaling": {"enabled": True, "processor": {"max": 50, "messages": 80}},
}
LITTLE: dict[str, Any] = {
    "scheduler": {"replicas": 1, "drain": 0},
    "processor": {"replicas": 1},
    "networkPolicy": {"crawl": []},
}
VALUES = {"default": {}, "own servers": OWN_SERVERS, "everything": EVERYTHING, "little": LITTLE}
each_values = pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)

VERSIONS = ("1.25", "1.29", "1.33", "1.37")


def faults(rendering: Rendering) -> dict[str, list[str]]:
    """Return what the rules find, by rule."""
    found = {rule.__name__: list(rule(rendering)) for rule in RULES}
    return {name: each for name, each in found.items() if each}


@each_values
def test_helm_finds_no_fault(values: dict[str, Any]) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART, values=values)


@pytest.mark.parametrize("version", VERSIONS)
@each_values
def test_every_document_is_one_of_kubernetes(values: dict[str, Any], version: str) -> None:
    documents = render(values, CHART, "crawl", "--kube-version", version)
    known = [each for each in documents if "coreos" not in each["apiVersion"]]
    assert len(known) > 10
    for document in known:
        kubernetes_validate.validate(document, version, strict=True)


@each_values
def test_the_rules_hold(values: dict[str, Any]) -> None:
    assert faults(Rendering(render(values))) == {}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_is_seen_to_be_broken(rule: Rule) -> None:
    assert rule.__name__ in {name for _, _, _, name in MUTATIONS}


MUTATIONS = [
    ("_helpers.tpl", "runAsUser: {{ index . 2 }}", "runAsUser: 0", "no_rights"),
    ("_helpers.tpl", "runAsNonRoot: true", "runAsNonRoot: false", "no_rights"),
    ("_helpers.tpl", "readOnlyRootFilesystem: true", "privileged: true", "no_rights"),
    ("_helpers.tpl", "drop: [ALL]", "drop: [NET_RAW]", "no_rights"),
    ("_helpers.tpl", "type: RuntimeDefault", "type: Unconfined", "no_rights"),
    ("_helpers.tpl", "enableServiceLinks: false", "enableServiceLinks: true", "no_rights"),
    ("_helpers.tpl", "ServiceAccountToken: false", "ServiceAccountToken: true", "no_rights"),
    ("_helpers.tpl", "emptyDir: {sizeLimit: 1Gi}", "hostPath: {path: /tmp}", "no_rights"),
    ("webui.yaml", "{medium: Memory, sizeLimit: 1Mi}", "{medium: Memory}", "bounded"),
    ("redis.yaml", ".Values.redis.resources", "dict", "bounded"),
    ("redis.yaml", '(list . "redis") | nindent 4', '(list . "webui") | nindent 4', "selected"),
    ("scheduler.yaml", "targetPort: xmlrpc", "targetPort: http", "selected"),
    ("scheduler.yaml", "serviceName: {{ $name }}", "serviceName: other", "selected"),
    ("_helpers.tpl", '{{- include "pyspider-zk.selector" . | nindent 8 }}', "a: b", "spread"),
    ("_helpers.tpl", "maxUnavailable: 1", "maxUnavailable: 0", "disruptions"),
    ("_helpers.tpl", "maxUnavailable: 1", "minAvailable: 100%", "disruptions"),
    (
        "zookeeper.yaml",
        '{{ include "pyspider-zk.disruption" (list . "zookeeper") }}',
        "",
        "disruptions",
    ),
    ("network-policies.yaml", "        - port: 3888\n", "", "closed"),
    ("network-policies.yaml", "        - port: {{ $port }}\n", "        - port: 6379\n", "closed"),
    ("network-policies.yaml", "policyTypes: [Ingress, Egress]", "policyTypes: [Ingress]", "closed"),
    ("scheduler.yaml", "containerPort: 23333", "containerPort: 23334", "closed"),
    (
        "network-policies.yaml",
        "        - port: 2281\n    {{- else }}",
        "        - port: 1\n    {{- else }}",
        "reachable",
    ),
    ("scheduler.yaml", "{{ add .Values.scheduler.drain 15 }}", "30", "drained"),
    ("workers.yaml", "{{ add $root.Values.scheduler.drain 15 }}", "30", "drained"),
    ("scheduler.yaml", "fieldPath: metadata.name}", "fieldPath: metadata.uid}", "drained"),
    (
        "zookeeper.yaml",
        "podManagementPolicy: Parallel",
        "podManagementPolicy: OrderedReady",
        "drained",
    ),
    ("_helpers.tpl", "path: /healthz", "path: /health", "probed"),
    ("_helpers.tpl", "path: /readyz", "path: /healthz", "probed"),
    ("_helpers.tpl", "scheme: HTTPS", "scheme: HTTP", "probed"),
    ("_helpers.tpl", "failureThreshold: 60", "failureThreshold: 6", "probed"),
    ("_helpers.tpl", '"browser" | nindent 2', '"metrics" | nindent 2', "probed"),
    ("_helpers.tpl", "config.json, renderer", "config.json, browser", "configured"),
    ("autoscaling.yaml", "oldest_seconds", "oldest_second", "scaled"),
    ("autoscaling.yaml", '"scheduler2fetcher"', '"to_fetcher"', "scaled"),
    ("autoscaling.yaml", "kind: StatefulSet", "kind: Deployment", "scaled"),
    ("workers.yaml", "if not (and", "if (and", "scaled"),
    ("_helpers.tpl", '"xmlrpc_tls_ca"', '"xmlrpc_ca"', "configured"),
    ("_helpers.tpl", '"tls" true', '"tls" false', "configured"),
    ("_helpers.tpl", '"need_auth" true', '"needs_auth" true', "configured"),
    ("_helpers.tpl", "{name: TASKDB_FILE,", "{name: TASKS_FILE,", "configured"),
    ("webui.yaml", "PYSPIDER_ZK_USERS", "PYSPIDER_ZK_USER", "configured"),
    ("workers.yaml", "config.json, {{ $component }}]", "config.json, work]", "configured"),
    ("_helpers.tpl", "defaultMode: 0440", "defaultMode: 0444", "files_are_there"),
    (
        "_helpers.tpl",
        "{{ .Release.Name }}-config",
        "{{ .Release.Name }}-configs",
        "files_are_there",
    ),
    ("redis.yaml", "secretName: {{ .Release.Name }}-redis", "secretName: redis", "files_are_there"),
    ("webui.yaml", "{name: users, mountPath", "{name: user, mountPath", "files_are_there"),
    ("secrets.yaml", '"secret" $kept.secret', '"secrets" $kept.secret', "files_are_there"),
    ("secrets.yaml", "name: {{ $release }}-authority", "name: {{ $release }}-webui", "unique"),
    (
        "webui.yaml",
        "value: /run/webui/users.json}",
        "valueFrom: {secretKeyRef: {name: x, key: y}}}",
        "told_nobody",
    ),
    ("webui.yaml", "{{ .Release.Name }}-webui\n", "{{ .Release.Name }}-authority\n", "told_nobody"),
    ("_helpers.tpl", '"username" "crawl"', '"root" "/redis://crawl:password@host"', "told_nobody"),
]


@pytest.mark.parametrize(
    ("file", "old", "new", "rule"), MUTATIONS, ids=[f"{m[3]}-{n}" for n, m in enumerate(MUTATIONS)]
)
def test_a_spoilt_chart_breaks_the_rule(
    tmp_path: Path, file: str, old: str, new: str, rule: str
) -> None:
    spoilt = tmp_path / "chart"
    shutil.copytree(CHART, spoilt)
    template = spoilt / "templates" / file
    text = template.read_text(encoding="utf-8")
    assert old in text
    template.write_text(text.replace(old, new), encoding="utf-8")
    values = EVERYTHING if rule == "scaled" or "nindent 2" in old or "renderer" in old else {}
    assert rule in faults(Rendering(render(values, spoilt)))


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_what_probes_ask_for_is_served(path: str) -> None:
    monitoring = Monitoring("webui", Health(lambda: 0.0, 1.0, dict))
    settings = Settings(metrics=f"127.0.0.1:{own_port()}")
    with monitored(settings, monitoring, None), urlopen(f"http://{settings.metrics}{path}") as page:
        assert page.status == 200


def test_prometheus_asks_who_it_may_and_by_a_name_that_the_certificate_has() -> None:
    rendering = Rendering(render(EVERYTHING))
    (monitor,) = rendering.of("PodMonitor")
    endpoint, browsers = monitor["spec"]["podMetricsEndpoints"]
    processes = [pod for pod in rendering.pods() if pod.is_process]
    assert rendering.selected(monitor["spec"]["selector"]) == processes
    assert all(endpoint["port"] in pod.ports for pod in processes if pod.ports)
    having = [pod.name for pod in processes if browsers["port"] in pod.ports]
    assert sorted(having) == [f"{RELEASE}-fetcher", f"{RELEASE}-webui"]
    assert browsers == {**endpoint, "port": browsers["port"]}
    host, _, domain = endpoint["tlsConfig"]["serverName"].partition(".")
    assert (host, domain) == ("metrics", f"{RELEASE}-scheduler.{NAMESPACE}.svc")
    (cluster,) = [each for each in rendering.of("Secret") if each["metadata"]["name"] == CLUSTER]
    wanted = (endpoint["authorization"]["credentials"], endpoint["tlsConfig"]["ca"]["secret"])
    assert {each["name"] for each in wanted} == {CLUSTER}
    assert {each["key"] for each in wanted} <= set(cluster["data"])


def test_the_operator_s_rules_are_those_that_are_shipped() -> None:
    (rule,) = Rendering(render(EVERYTHING)).of("PrometheusRule")
    assert rule["spec"] == yaml.safe_load(
        (ROOT / "deploy/monitoring/alerts.yml").read_text("utf-8")
    )


def test_another_number_of_pods_restarts_none() -> None:
    few, many = (
        {pod.name: (pod.labels, pod.spec) for pod in Rendering(render(values)).pods()}
        for values in ({}, {"scheduler": {"replicas": 5}, "processor": {"replicas": 9}})
    )
    assert few == many


def test_names_that_look_like_numbers_are_texts() -> None:
    values = {"storageClass": "1e3", "image": {"pullSecrets": ["123"]}, "redis": {"storage": "8"}}
    for document in render(values, CHART, "123"):
        kubernetes_validate.validate(document, VERSIONS[-1], strict=True)
