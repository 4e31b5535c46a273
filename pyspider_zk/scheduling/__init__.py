"""pyspider's scheduler as a member of a cluster."""
