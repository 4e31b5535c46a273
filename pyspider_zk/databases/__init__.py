"""pyspider's databases, and how a process bears that one is unavailable."""
