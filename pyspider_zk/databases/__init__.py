"""pyspider's databases, and how a process tolerates their outages."""
