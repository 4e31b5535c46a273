"""Common parts of the cluster's components: settings, identity, signals."""
