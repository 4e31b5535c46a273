"""pyspider's web UI, fed by the whole cluster."""
