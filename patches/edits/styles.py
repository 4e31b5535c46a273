"""Styles: moved to files, because the pages' content security policy allows none inline."""

from edits.edit import Edit

_EDITOR = "pyspider/webui/templates/debug.html"
_EDITOR_SCRIPT = "pyspider/webui/static/debug.min.js"
_FILE = "a style within a page is forbidden by its content security policy; a class is not"
_FRAME = "the editor's policy is about a document that it parses, and crawled pages have styles"
_LINK = (
    "    <link href=\"{{ url_for('static', filename='page_styles.css') }}\" rel=\"stylesheet\">\n"
)


def _linked(template: str, own: str) -> Edit:
    line = f"    <link href=\"{{{{ url_for('static', filename='{own}') }}}}\" rel=\"stylesheet\">\n"
    return Edit(template, line, line + _LINK, _FILE)


EDITS = (
    _linked(_EDITOR, "debug.min.css"),
    Edit(
        _EDITOR,
        '<span id="history-wrap" style="display: none;">',
        '<span id="history-wrap" class="starts-hidden">',
        _FILE,
    ),
    Edit(
        _EDITOR,
        '<div id="python-log" style="display: none;">',
        '<div id="python-log" class="starts-hidden">',
        _FILE,
    ),
    Edit(_EDITOR, '<pre style="display: none;">', '<pre class="starts-hidden">', _FILE),
    Edit(_EDITOR, 'class="tab" style="display: none;"', 'class="tab starts-hidden"', _FILE, 3),
    Edit(_EDITOR, 'class="num" style="display: none;"', 'class="num starts-hidden"', _FILE, 2),
    Edit(
        _EDITOR, 'class="overlay" style="display: none;"', 'class="overlay starts-hidden"', _FILE, 2
    ),
    Edit(_EDITOR, 'class="debug-panel" style="right: 50%"', 'class="debug-panel left-half"', _FILE),
    Edit(_EDITOR, 'class="debug-panel" style="left: 50%"', 'class="debug-panel right-half"', _FILE),
    Edit(_EDITOR_SCRIPT, "r=n.render_html(", "r=n.render_html.bind(n,", _FRAME, 2),
    Edit(
        _EDITOR_SCRIPT,
        '=(new DOMParser).parseFromString(e,"text/html")',
        '=new($("#tab-web iframe")[0].contentWindow.DOMParser)().parseFromString(e,"text/html")',
        _FRAME,
    ),
    Edit(_EDITOR_SCRIPT, 'frame-src data:\\">"+r)', 'frame-src data:\\">"+(r.call?r():r))', _FRAME),
)
