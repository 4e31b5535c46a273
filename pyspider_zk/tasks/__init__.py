"""pyspider's task databases in bulk: many rows by one query, many changes by one transaction."""
