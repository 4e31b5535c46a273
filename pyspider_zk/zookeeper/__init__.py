"""The ZooKeeper adapter, the only importer of kazoo."""
