"""pyspider's components, subclassed at its own seams."""
