"""Dashboard: what pyspider's page shows of the cluster, from ``config.cluster``."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspider_zk.cluster.records import Cluster
from pyspider_zk.errors import ClusterError
from pyspider_zk.projects.slots import slot_of

logger = logging.getLogger(__name__)


class Dashboard:
    """Data of the dashboard: a link, and each project's owner.

    Args:
        read: reads the cluster.
        url: of the operations page.
    """

    def __init__(self, read: Callable[[], Cluster], url: str) -> None:
        self._read = read
        self.url = url

    def with_owners(self, projects: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the projects, each with its owner's number; ``None``: nobody, or unknown."""
        try:
            cluster = self._read()
        except ClusterError as error:
            logger.warning("the dashboard shows no owners: %s", error)
            return [{**project, "owner": None} for project in projects]
        return [{**project, "owner": _owner(cluster, project["name"])} for project in projects]


def _owner(cluster: Cluster, project: str) -> int | None:
    owner = cluster.owner(slot_of(project, cluster.meta.slots))
    return owner.number if owner else None
