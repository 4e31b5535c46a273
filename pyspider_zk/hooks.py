"""pyspider's components, subclassed at its own seams."""

from pyspider_zk.scheduling.member import ClusterScheduler
from pyspider_zk.workers.fetcher import ClusterFetcher
from pyspider_zk.workers.processor import ClusterProcessor
from pyspider_zk.workers.result_worker import ClusterResultWorker

__all__ = ["ClusterFetcher", "ClusterProcessor", "ClusterResultWorker", "ClusterScheduler"]
