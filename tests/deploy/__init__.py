"""A composed cluster on a real engine: scaled, broken, restarted, upgraded, tried by strangers."""
