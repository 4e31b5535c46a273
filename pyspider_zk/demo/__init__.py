"""The demo: a crawl of a real site that loses a scheduler and no page."""
