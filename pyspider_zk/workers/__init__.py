"""pyspider's processor, fetcher and result worker in the cluster."""
