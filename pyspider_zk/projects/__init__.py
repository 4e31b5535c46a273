"""Projects: their names, slots and rows, and which there are."""
