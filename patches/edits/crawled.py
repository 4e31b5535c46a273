"""Crawled pages: their markup and URLs are shown, and never run; parsing them takes no minutes."""

from edits.edit import Edit, Span

_EDITOR = "pyspider/webui/static/debug.min.js"
_RESPONSE = "pyspider/libs/response.py"
_OURS = "a page's text, JSON and tree are those of libs/page.py"
_WEB_ONLY = "a link to javascript: would run what a crawled page says as whoever presses it"

# The selector helper runs in the editor's own page, so nothing in the frame needs to. The frame
# keeps `allow-scripts`: without it Safari hears no press in it (WebKit bug 218086).
_POLICY = "script-src 'none'; object-src 'none'; frame-src data:"

_BASE = "the document that is parsed has the editor's policy, which forbids another base"
_LOADED = "before it has loaded, the frame has the editor's policy, not that of a crawled page"


def _linked(template: str, attribute: str, url: str) -> Edit:
    link = f'{attribute} href="{{{{ {url} }}}}"'
    checked = f"{{% if ({url} or '').startswith(('http://', 'https://')) %}}"
    return Edit(
        f"pyspider/webui/templates/{template}.html",
        link,
        f'{attribute}{checked} href="{{{{ {url} }}}}"{{% endif %}}',
        _WEB_ONLY,
    )


EDITS = (
    Edit(
        _EDITOR,
        '$(r).find("base").remove()',
        '$(r).find("base,meta[http-equiv]").remove()',
        "a page that leads on by itself would take its place in the frame",
    ),
    Edit(
        _EDITOR,
        '$(r).find("head").prepend("<base>"),$(r).find("base").attr("href",t),',
        "",
        _BASE,
    ),
    Edit(
        _EDITOR,
        ",r.documentElement.innerHTML}",
        ',$("<base>").attr("href",t)[0].outerHTML+r.documentElement.innerHTML}',
        _BASE,
    ),
    Edit(
        _EDITOR,
        "var a=t.contentDocument;",
        't.addEventListener("load",function(){var a=t.contentDocument;',
        _LOADED,
    ),
    Edit(_EDITOR, "a.onreadystatechange=function", "(a.onreadystatechange=function", _LOADED),
    Edit(_EDITOR, "scrollHeight+60)},", "scrollHeight+60)})()},{once:!0}),", _LOADED),
    Edit(
        _EDITOR,
        "a.write(r)",
        f'a.write("<meta http-equiv=Content-Security-Policy content=\\"{_POLICY}\\">"+r)',
        "the frame counts as the web UI, so a script, handler or link in it could do anything",
    ),
    Edit(
        _EDITOR,
        "t.url||'<span class=\"error\">no_url!</span>'",
        'function(){return t.url?$("<div>").text(t.url).html():'
        "'<span class=\"error\">no_url!</span>'}",
        "an address may hold markup, and would become part of the editor itself",
    ),
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
    _linked("result", "class=open-url", "result.url"),
    _linked("task", "class=url", "task.url"),
)
