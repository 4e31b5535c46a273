"""What every component of the cluster begins with: settings, identity, signals."""
