"""Backup and restore of what a cluster keeps in ZooKeeper."""
