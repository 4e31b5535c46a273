"""Projects: their names, slots and rows, and the list of them."""
