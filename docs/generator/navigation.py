"""Navigation of the site: which page stands below which.

The pages themselves name no navigation, so that they are plain Markdown everywhere. A pattern takes
what is not named before it, so a new page needs no edit here.
"""

from collections.abc import Mapping, Sequence

from sphinx.application import Sphinx

PARTS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "README": {
        "Tutorial": ["docs/tutorial/first-cluster", "docs/tutorial/three-machines"],
        "How-to guides": [
            "docs/how-to/install",
            "docs/how-to/start-and-stop",
            "docs/how-to/several-machines",
            "docs/how-to/databases",
            "docs/how-to/secure",
            "docs/how-to/users",
            "docs/how-to/look",
            "docs/how-to/projects",
            "docs/how-to/*",
        ],
        "Troubleshooting": ["docs/troubleshooting", "docs/reference/messages"],
        "Reference": [
            "docs/reference/commands",
            "docs/reference/settings",
            "docs/operations/README",
            "docs/api",
            "docs/reference/*",
            "docs/operations-page",
            "docs/security",
            "docs/glossary",
        ],
        "For your own programs": ["docs/controller", "docs/job-queue"],
        "Background": [
            "docs/comparison",
            "docs/internals/README",
            "docs/adr/README",
            "patches/README",
            "CONTRIBUTING",
            "CHANGELOG",
            "docs/*",
        ],
    },
    "docs/operations/README": {"": ["docs/operations/*"]},
    "docs/internals/README": {"": ["docs/internals/*"]},
    "docs/adr/README": {"": ["docs/adr/*"]},
    "CONTRIBUTING": {"": ["tests/*/README"]},
}
"""Page -> caption -> the pages below it, in this order."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx ask us for each page."""
    app.connect("source-read", add_navigation)
    return {"parallel_read_safe": True}


def add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    """Add to a page's text the list of the pages below it, which only the sidebar shows."""
    for caption, below in PARTS.get(page, {}).items():
        source[0] += "\n" + toctree(caption, below)


def toctree(caption: str, pages: Sequence[str]) -> str:
    """Return Sphinx's directive for a list of pages."""
    options = [":hidden:", ":glob:", *([f":caption: {caption}"] if caption else [])]
    entries = [f"/{page}" for page in pages]
    return "\n".join(["```{toctree}", *options, "", *entries, "```", ""])
