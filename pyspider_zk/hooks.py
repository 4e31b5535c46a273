"""The classes that pyspider is configured with: its components as parts of a cluster."""

from pyspider_zk.scheduling.member import ClusterScheduler
from pyspider_zk.workers.fetcher import ClusterFetcher
from pyspider_zk.workers.processor import ClusterProcessor
from pyspider_zk.workers.result_worker import ClusterResultWorker

__all__ = ["ClusterFetcher", "ClusterProcessor", "ClusterResultWorker", "ClusterScheduler"]
