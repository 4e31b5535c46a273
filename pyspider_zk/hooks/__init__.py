"""pyspider's components, subclassed at its own seams."""

from pyspider_zk.hooks.fetcher import ClusterFetcher
from pyspider_zk.hooks.processor import ClusterProcessor
from pyspider_zk.hooks.result_worker import ClusterResultWorker
from pyspider_zk.hooks.scheduler import ClusterScheduler

__all__ = ["ClusterFetcher", "ClusterProcessor", "ClusterResultWorker", "ClusterScheduler"]
