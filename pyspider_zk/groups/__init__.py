"""Groups of processes: ids, membership, locks and barriers."""
