"""A rendering of the chart, and who is meant by whom in it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.kubernetes.chart import Document

WORKLOADS = ("Deployment", "StatefulSet")


@dataclass(frozen=True)
class Pod:
    """The pods of one workload, or a single pod.

    Attributes:
        name: of the workload.
        labels: of the pods.
        spec: of the pods.
    """

    name: str
    labels: Mapping[str, str]
    spec: Document

    @property
    def containers(self) -> list[Document]:
        """All containers, those that run first included."""
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]

    @property
    def ports(self) -> dict[str, int]:
        """The ports that it listens on, by name."""
        each = (port for container in self.containers for port in container.get("ports", []))
        return {port["name"]: port["containerPort"] for port in each}

    @property
    def is_process(self) -> bool:
        """Whether it runs pyspider-zk."""
        return self.labels.get("pyspider-zk/role") == "process"


@dataclass(frozen=True)
class Rendering:
    """What Helm rendered."""

    documents: list[Document]

    def of(self, kind: str) -> list[Document]:
        """Return the documents of a kind."""
        return [each for each in self.documents if each["kind"] == kind]

    def names(self, kind: str) -> set[str]:
        """Return the names of the documents of a kind."""
        return {name_of(each) for each in self.of(kind)}

    def pods(self) -> Iterator[Pod]:
        """Yield the pods of all workloads, and single ones."""
        for kind in WORKLOADS:
            for each in self.of(kind):
                template = each["spec"]["template"]
                yield Pod(name_of(each), template["metadata"]["labels"], template["spec"])
        for each in self.of("Pod"):
            yield Pod(name_of(each), each["metadata"]["labels"], each["spec"])

    def selected(self, selector: Document) -> list[Pod]:
        """Return the pods that a selector selects."""
        return [pod for pod in self.pods() if selects(selector, pod.labels)]


def name_of(document: Document) -> str:
    """Return the name of a document."""
    return str(document["metadata"]["name"])


def selects(selector: Document, labels: Mapping[str, str]) -> bool:
    """Return whether a selector selects pods with these labels."""
    equal = selector.get("matchLabels", {}).items() <= labels.items()
    return equal and all(_holds(each, labels) for each in selector.get("matchExpressions", []))


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    if expression["operator"] != "In":
        raise ValueError(f"the operator {expression['operator']} is not known here")
    return labels.get(expression["key"]) in expression["values"]
