"""The command pyspider-zk."""
