"""Rules that every rendering of the chart must meet, beside the schemas of Kubernetes.

Each takes a rendering and yields sentences about what does not hold.
"""

import base64
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import click

from pyspider_zk.cli.checks import inspect_config
from pyspider_zk.cli.main import cli
from pyspider_zk.config import Settings, settings_from
from pyspider_zk.errors import ConfigError
from pyspider_zk.metrics.families import QUEUE_AGE, QUEUE_LENGTH
from pyspider_zk.secret_files import URL_VARIABLES
from tests.kubernetes.chart import Document
from tests.kubernetes.rendering import WORKLOADS, Pod, Rendering, name_of, selects

HEALTH = {"path": "/healthz", "scheme": "HTTPS"}
PROCESS_PROBES = {
    "startupProbe": HEALTH,
    "livenessProbe": HEALTH,
    "readinessProbe": HEALTH | {"path": "/readyz"},
}
SCRIPT = {"command": ["healthcheck"]}
SERVER_PROBES = {"startupProbe": SCRIPT, "readinessProbe": SCRIPT}
FAMILIES_BY_QUEUE = {
    each.full_name: dict(each.labels)["queue"] for each in (QUEUE_AGE, QUEUE_LENGTH)
}

Rule = Callable[[Rendering], Iterator[str]]

CONFIG = "/etc/pyspider-zk/config.json"
MOUNTED = "/run/cluster"
OTHER_VARIABLES = {"NAMESPACE", "ZOOKEEPERS"}
"""Variables that are no settings: of the manifests themselves, and of ZooKeeper's image."""


def no_rights(rendering: Rendering) -> Iterator[str]:
    """Every pod meets Pod Security's level "restricted", and more."""
    for pod in rendering.pods():
        of_pod = pod.spec["securityContext"]
        checks = {
            "runs as root": of_pod["runAsNonRoot"] is True and of_pod["runAsUser"] > 0,
            "has all system calls": of_pod["seccompProfile"] == {"type": "RuntimeDefault"},
            "has a token": pod.spec["automountServiceAccountToken"] is False,
            "gets variables of services": pod.spec["enableServiceLinks"] is False,
            "is in the node": not {"hostNetwork", "hostPID", "hostIPC"} & set(pod.spec),
        }
        yield from (f"{pod.name} {what}" for what, holds in checks.items() if not holds)
        for container in pod.containers:
            yield from _rights(pod, container)
        for volume in pod.spec["volumes"]:
            if "hostPath" in volume:
                yield f"{pod.name}: {volume['name']} is of the node"


def _rights(pod: Pod, container: Document) -> Iterator[str]:
    wanted = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    if container["securityContext"] != wanted:
        yield f"{pod.name}, {container['name']}: {container['securityContext']}"


def bounded(rendering: Rendering) -> Iterator[str]:
    """Every container has a limit of memory and requests; what it may write is bounded."""
    for pod in rendering.pods():
        for container in pod.containers:
            if "memory" not in container["resources"].get("limits", {}):
                yield f"{pod.name}, {container['name']}: no limit of memory"
            if set(container["resources"].get("requests", {})) < {"cpu", "memory"}:
                yield f"{pod.name}, {container['name']}: no requests"
        for volume in pod.spec["volumes"]:
            if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
                yield f"{pod.name}: {volume['name']} has no limit"


def selected(rendering: Rendering) -> Iterator[str]:
    """Selectors select the pods that they are meant for, and one workload each."""
    for kind in (*WORKLOADS, "PodDisruptionBudget"):
        for each in rendering.of(kind):
            found = [pod.name for pod in rendering.selected(each["spec"]["selector"])]
            if found != [name_of(each)]:
                yield f"{kind} {name_of(each)} selects {found}"
    for service in rendering.of("Service"):
        pods = rendering.selected({"matchLabels": service["spec"]["selector"]})
        if [pod.name for pod in pods] != [name_of(service)]:
            yield f"Service {name_of(service)} selects {[pod.name for pod in pods]}"
        for port in service["spec"]["ports"]:
            if any(port["targetPort"] not in pod.ports for pod in pods):
                yield f"Service {name_of(service)}: no port {port['targetPort']}"
    for each in rendering.of("StatefulSet"):
        if each["spec"]["serviceName"] not in rendering.names("Service"):
            yield f"StatefulSet {name_of(each)}: no Service {each['spec']['serviceName']}"


def spread(rendering: Rendering) -> Iterator[str]:
    """Pods of a workload are spread over the nodes."""
    for pod in rendering.pods():
        constraints = pod.spec["topologySpreadConstraints"]
        if not any(selects(each["labelSelector"], pod.labels) for each in constraints):
            yield f"{pod.name} is not spread"


def disruptions(rendering: Rendering) -> Iterator[str]:
    """A budget lets a node be drained, and keeps a quorum."""
    for each in rendering.of("PodDisruptionBudget"):
        spec = each["spec"]
        if spec.get("maxUnavailable") != 1 or "minAvailable" in spec:
            yield f"PodDisruptionBudget {name_of(each)}: {spec}"
    for kind in WORKLOADS:
        for each in rendering.of(kind):
            many = each["spec"].get("replicas", 2) > 1
            if many and name_of(each) not in rendering.names("PodDisruptionBudget"):
                yield f"{name_of(each)} has no PodDisruptionBudget"


def closed(rendering: Rendering) -> Iterator[str]:
    """Nothing reaches a port, and a pod reaches nothing, unless a policy says who and which."""
    for pod in rendering.pods():
        mine = [each["spec"] for each in _policies_of(rendering, pod)]
        rules = [rule for spec in mine for rule in spec.get("ingress", [])]
        if {kind for spec in mine for kind in spec["policyTypes"]} != {"Ingress", "Egress"}:
            yield f"{pod.name} is open"
        if not all(rule.get("from") and rule.get("ports") for rule in rules):
            yield f"{pod.name} is open to everybody"
        named = {port["port"] for rule in rules for port in rule.get("ports", [])}
        unnamed = set(pod.ports.values()) - named
        if unnamed and not any(spec.get("ingress") == [] for spec in mine):
            yield f"{pod.name}: no policy names {sorted(unnamed)}"
    for policy in rendering.of("NetworkPolicy"):
        pods = rendering.selected(policy["spec"]["podSelector"])
        listening = {port for pod in pods for port in pod.ports.values()}
        for rule in policy["spec"].get("ingress", []):
            if not {port["port"] for port in rule["ports"]} <= listening:
                yield f"NetworkPolicy {name_of(policy)}: nothing listens on {rule['ports']}"


def reachable(rendering: Rendering) -> Iterator[str]:
    """Who is let in is let out, and only to ports that there are."""
    for server in rendering.pods():
        for rule in _rules(rendering, server, "ingress"):
            clients = [pod for peer in rule["from"] for pod in _pods(rendering, peer)]
            for port in (port["port"] for port in rule["ports"]):
                for client in clients:
                    if not _lets_out(rendering, client, server, port):
                        yield f"{client.name} is not let out to {server.name}, {port}"


def _lets_out(rendering: Rendering, client: Pod, server: Pod, port: int) -> bool:
    for rule in _rules(rendering, client, "egress"):
        to = [pod.name for peer in rule.get("to", []) for pod in _pods(rendering, peer)]
        if server.name in to and port in [each["port"] for each in rule["ports"]]:
            return True
    return False


def _pods(rendering: Rendering, peer: Document) -> list[Pod]:
    return rendering.selected(peer["podSelector"]) if set(peer) == {"podSelector"} else []


def _rules(rendering: Rendering, pod: Pod, direction: str) -> Iterator[Document]:
    for policy in _policies_of(rendering, pod):
        yield from policy["spec"].get(direction, [])


def _policies_of(rendering: Rendering, pod: Pod) -> list[Document]:
    policies = rendering.of("NetworkPolicy")
    return [each for each in policies if selects(each["spec"]["podSelector"], pod.labels)]


def drained(rendering: Rendering) -> Iterator[str]:
    """A scheduler and a fetcher have time to drain, and a scheduler keeps its name."""
    drain = _config(rendering)["zookeeper"].get("drain", Settings().drain)
    for pod in _of(rendering, "scheduler", "fetcher"):
        if pod.spec["terminationGracePeriodSeconds"] < drain + 10:
            yield f"{pod.name}: {pod.spec['terminationGracePeriodSeconds']} s for {drain} s"
    for pod in _of(rendering, "scheduler"):
        name = _environment(pod.spec["containers"][0])["PYSPIDER_ZK_NAME"]
        if name.get("valueFrom") != {"fieldRef": {"fieldPath": "metadata.name"}}:
            yield f"{pod.name}: its name does not last"
    for each in rendering.of("StatefulSet"):
        waits = each["spec"].get("podManagementPolicy") != "Parallel"
        if waits and each["spec"]["replicas"] > 1:
            yield f"{name_of(each)}: each waits for the one before"


def _of(rendering: Rendering, *components: str) -> list[Pod]:
    return [pod for pod in rendering.pods() if pod.spec["containers"][0]["name"] in components]


def probed(rendering: Rendering) -> Iterator[str]:
    """A process that waits is not restarted; a server is asked by its image's script."""
    for pod in rendering.pods():
        for container in filter(lambda each: each.get("ports"), pod.spec["containers"]):
            yield from (f"{pod.name}: {fault}" for fault in _probe_faults(container, pod))


def _probe_faults(container: Document, pod: Pod) -> Iterator[str]:
    found = {name: each for name, each in container.items() if name.endswith("Probe")}
    asked = {name: each.get("httpGet", each.get("exec")) for name, each in found.items()}
    port = "browser" if container["name"] == "renderer" else "metrics"
    of_processes = {name: {**each, "port": port} for name, each in PROCESS_PROBES.items()}
    if asked != (of_processes if pod.is_process else SERVER_PROBES):
        yield str(asked)
    if pod.is_process and port not in {each["name"] for each in container["ports"]}:
        yield "no port of metrics"
    for name, each in found.items():
        patience = each.get("failureThreshold", 3) * each["periodSeconds"]
        if name == "startupProbe" and patience < 300:
            yield f"{patience} s to start"


def scaled(rendering: Rendering) -> Iterator[str]:
    """An autoscaler alone says how many pods a workload has, by metrics that exist."""
    workloads = {(kind, name_of(each)): each for kind in WORKLOADS for each in rendering.of(kind)}
    for scaler in rendering.of("HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]
        workload = workloads.get((target["kind"], target["name"]))
        if workload is None or "replicas" in workload["spec"]:
            yield f"{name_of(scaler)}: {target}"
        for metric in (each["external"]["metric"] for each in scaler["spec"]["metrics"]):
            queue = metric["selector"]["matchLabels"]["queue"]
            if queue not in FAMILIES_BY_QUEUE.get(metric["name"], ()):
                yield f"{name_of(scaler)}: no metric {metric['name']} of {queue}"
    for (kind, name), workload in workloads.items():
        scalers = [
            each["spec"]["scaleTargetRef"] for each in rendering.of("HorizontalPodAutoscaler")
        ]
        if "replicas" not in workload["spec"] and name not in [each["name"] for each in scalers]:
            yield f"{kind} {name}: nobody says how many"


def configured(rendering: Rendering) -> Iterator[str]:
    """config.json and the variables make settings without a fault; the commands are ours."""
    config = _config(rendering)
    with click.Context(cli) as context:
        found = inspect_config(config, CONFIG, context)
        yield from [*found.faults, *found.warnings]
        for pod in rendering.pods():
            for container in pod.spec["containers"] if pod.is_process else ():
                yield from _command_faults(pod, container, context)
                yield from _settings_faults(pod, container, config)


def _command_faults(pod: Pod, container: Document, context: click.Context) -> Iterator[str]:
    option, config, name, *words = container["args"]
    if (option, config) != ("-c", CONFIG) or name not in cli.commands:
        yield f"{pod.name}: {container['args']}"
        return
    try:
        cli.commands[name].make_context(name, words, parent=context)
    except click.UsageError as error:
        yield f"{pod.name}: {error.message}"


def _settings_faults(pod: Pod, container: Document, config: Document) -> Iterator[str]:
    """Yield the faults of a process's settings; its secrets are files of ours meanwhile."""
    environment = _environment(container).items()
    variables = {name: each.get("value", "x") for name, each in environment}
    known = {f"{name}_FILE" for name in URL_VARIABLES} | OTHER_VARIABLES
    ours = {name: each for name, each in variables.items() if name not in known}
    yield from (f"{pod.name}: {name}" for name in ours if not name.startswith("PYSPIDER_ZK_"))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("secret", "zookeeper", "metrics"):
            Path(folder, name).touch(mode=0o600)
            Path(folder, name).write_text("a secret of the tests")
        section = json.loads(json.dumps(config["zookeeper"]).replace(MOUNTED, folder))
        try:
            settings = settings_from(section, ours)
        except ConfigError as error:
            yield from (f"{pod.name}: {fault}" for fault in error.faults)
            return
    if not (settings.secret and settings.password and settings.tls and settings.xmlrpc_tls):
        yield f"{pod.name}: without a login or TLS"


def files_are_there(rendering: Rendering) -> Iterator[str]:
    """What is mounted exists, and so does every file that a setting names."""
    for pod in rendering.pods():
        volumes = {each["name"]: each for each in pod.spec["volumes"]} | {"data": {}}
        for volume in volumes.values():
            yield from _volume_faults(pod, volume, rendering)
        for container in pod.containers:
            mounts = container.get("volumeMounts", [])
            yield from (
                f"{pod.name}: no volume {mount['name']}"
                for mount in mounts
                if mount["name"] not in volumes
            )
    text = json.dumps([_config(rendering), *(pod.spec for pod in rendering.pods())])
    for secret in rendering.of("Secret"):
        if name_of(secret).endswith("-cluster"):
            text += "\n".join(map(_decoded, secret["data"].values()))
            for file in set(re.findall(rf"{MOUNTED}/([\w.-]+)", text)) - set(secret["data"]):
                yield f"{MOUNTED}/{file} is not there"


def _volume_faults(pod: Pod, volume: Document, rendering: Rendering) -> Iterator[str]:
    secrets = rendering.names("Secret")
    if secret := volume.get("secret"):
        if secrets and secret["secretName"] not in secrets:
            yield f"{pod.name}: no Secret {secret['secretName']}"
        if secret.get("defaultMode") != 0o440 or pod.spec["securityContext"].get("fsGroup") is None:
            yield f"{pod.name}: others can read {secret['secretName']}, or it itself cannot"
    config = volume.get("configMap")
    if config and config["name"] not in rendering.names("ConfigMap"):
        yield f"{pod.name}: no ConfigMap {config['name']}"


def told_nobody(rendering: Rendering) -> Iterator[str]:
    """Secrets are in Secrets, and pods get them as files: in no variable, argument or ConfigMap."""
    others = [each for each in rendering.documents if each["kind"] != "Secret"]
    text = json.dumps(others)
    for secret in rendering.of("Secret"):
        for file, value in secret["data"].items():
            content = _decoded(value)
            if content in text or value in text:
                yield f"{name_of(secret)}, {file} is elsewhere as well"
    for pod in rendering.pods():
        for container in pod.containers:
            from_secrets = [
                each for each in container.get("env", []) if "secretKeyRef" in str(each)
            ]
            if from_secrets or "envFrom" in container:
                yield f"{pod.name} has a secret in a variable"
        for volume in pod.spec["volumes"]:
            if volume.get("secret", {}).get("secretName", "").endswith("-authority"):
                yield f"{pod.name} has the authorities' keys"
    if re.search(r"://[^\s/\"]*:[^\s/\"]*@", text):
        yield "a URL has a password"


def unique(rendering: Rendering) -> Iterator[str]:
    """No two objects have one name, and no two listen on one port of a pod."""
    for one, other in combinations(rendering.documents, 2):
        if (one["kind"], name_of(one)) == (other["kind"], name_of(other)):
            yield f"two are called {one['kind']} {name_of(one)}"


RULES: tuple[Rule, ...] = (
    no_rights,
    bounded,
    selected,
    spread,
    disruptions,
    closed,
    reachable,
    drained,
    probed,
    scaled,
    configured,
    files_are_there,
    told_nobody,
    unique,
)


def _config(rendering: Rendering) -> Document:
    (document,) = rendering.of("ConfigMap")
    config: Document = json.loads(document["data"]["config.json"])
    return config


def _environment(container: Document) -> dict[str, Document]:
    return {each["name"]: each for each in container.get("env", [])}


def _decoded(value: str) -> str:
    return base64.b64decode(value).decode()
