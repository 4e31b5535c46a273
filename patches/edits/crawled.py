"""Crawled pages: parsing them takes no minutes."""

from edits.edit import Edit, Span

_RESPONSE = "pyspider/libs/response.py"
_OURS = "a page's text, JSON and tree are those of libs/page.py"

EDITS = (
    Span(_RESPONSE, "import cgi\n", "from tblib", "import six\n", _OURS),
    Edit(_RESPONSE, "from pyquery import PyQuery\n", "", _OURS),
    Edit(
        _RESPONSE,
        "from pyspider.libs import utils\n",
        "from pyspider.libs.page import Page\n",
        _OURS,
    ),
    Edit(_RESPONSE, "class Response(object):", "class Response(Page):", _OURS),
    Span(
        _RESPONSE,
        "    @property\n    def encoding(self):",
        "    def raise_for_status(",
        "",
        "text, JSON and tree guessed at different encodings, and kept to their guesses",
    ),
    Span(_RESPONSE, "\n\ndef get_encoding(", "    return encoding\n", "", _OURS),
    Edit(_RESPONSE, "    return encoding\n", "", _OURS),
)
