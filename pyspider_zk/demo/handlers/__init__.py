"""Handler scripts that the demo gives to pyspider; pyspider runs them, we do not import them."""
