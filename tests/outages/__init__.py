"""Databases, Redis and ZooKeeper away for a time, while a cluster crawls."""
