"""Directive ``generated``: the parts of the reference that are made from the code.

A page says ```` ```{generated} settings ```` where they belong.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from generator import commands, comparison, exit_codes, http_api, settings

PARTS: Mapping[str, Callable[[], Iterator[str]]] = {
    "commands": commands.lines,
    "comparison": comparison.lines,
    "exit-codes": exit_codes.lines,
    "http-api": http_api.lines,
    "settings": settings.lines,
}


class Generated(SphinxDirective):
    """Puts a part of ``PARTS`` in its place, as if it stood there in Markdown."""

    required_arguments = 1
    option_spec: ClassVar = {}

    def run(self) -> list[nodes.Node]:
        """Return what the part says."""
        made = "\n".join(PARTS[self.arguments[0]]())
        return self.parse_text_to_nodes(made, allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Give Sphinx the directive."""
    app.add_directive("generated", Generated)
    return {"parallel_read_safe": True}
