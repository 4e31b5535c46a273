"""pyspider with a cluster of schedulers, joined through ZooKeeper."""

__version__ = "0.1.0"
