"""What runs in containers of the composed cluster."""
