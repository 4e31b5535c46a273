"""What must hold of a history: one module for each promise, pure functions over values."""
