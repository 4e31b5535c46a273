"""The pages: they load everything from the web UI itself, so they work without the internet."""

from edits.edit import Edit, Span

_APP = "pyspider/webui/app.py"
_RUN = "pyspider/run.py"
_OFFLINE = "the libraries are installed with the web UI; a CDN is asked only if one is named"

_EDITOR = "pyspider/webui/templates/debug.html"
_DATA = "code within a page is forbidden by its content security policy; data is not"
_LOADED = """    <script src="{{ url_for('static', filename='page_data.js') }}"></script>\n"""

REMOVED = (
    "pyspider/webui/static/webpack.config.js",
    *(
        f"pyspider/webui/{name}"
        for page in ("index", "result", "task", "tasks")
        for name in (f"templates/{page}.html", f"static/{page}.min.js", f"static/{page}.min.css")
    ),
)
"""Pages in whose place the cluster's stand."""

# library, version that the templates ask for, ours, how often which template asks
_RAISED = (
    ("jquery", "1.11.0", "3.7.1", {"debug": 1}),
    ("codemirror", "5.20.2", "5.65.20", {"debug": 16}),
)

EDITS: tuple[Edit | Span, ...] = (
    Edit(
        _APP,
        "        cdn = app.config.get('cdn', '//cdnjscn.b0.upaiyun.com/libs/')\n",
        "        cdn = app.config.get('cdn')\n"
        "        if not cdn:\n"
        "            return app.url_for('static', filename='cdn/' + path)\n",
        _OFFLINE,
    ),
    Edit(
        _RUN,
        "@click.option('--cdn', default='//cdnjs.cloudflare.com/ajax/libs/',\n"
        "              help='js/css cdn server')\n",
        "@click.option('--cdn', help='URL of a js/css cdn server'\n"
        "              ' [default: the web ui serves its own files]')\n",
        _OFFLINE,
    ),
    Edit(
        _RUN,
        "    app.config['cdn'] = cdn\n",
        "    app.config['cdn'] = cdn\n"
        "    if cdn:\n"
        "        logging.getLogger('webui').info('pages load js and css from %s', cdn)\n",
        "operators must see that browsers load code from elsewhere",
    ),
    Span(
        _EDITOR,
        "    <!--[if lt IE 9]>\n",
        '    <meta name="description"',
        '    <link rel="icon" href="data:,">\n',
        "no script for Internet Explorer 8 from a server that is gone, and no 404 for an icon",
    ),
    Span(
        _EDITOR,
        "    <script>\n      var task_content",
        "    <script src=\"{{ url_for('static', filename='debug.min.js') }}\"",
        '    <script type="application/json" data-name="task_content">'
        "{{ task | tojson | tojson | safe }}</script>\n"
        '    <script type="application/json" data-name="script_content">'
        "{{ script | tojson | safe }}</script>\n" + _LOADED,
        _DATA,
    ),
    Edit(
        _EDITOR,
        '<a href="javascript:;" id=',
        '<a role="button" tabindex="0" id=',
        "a link to javascript: is code within the page",
        count=2,
    ),
    Edit(
        _EDITOR,
        "    <script src=\"{{ url_for('cdn', path='URI.js/1.11.2/URI.min.js') }}\"></script>\n",
        "",
        "no script uses it",
    ),
    *(
        Edit(
            f"pyspider/webui/templates/{template}.html",
            f"path='{library}/{old}/",
            f"path='{library}/{new}/",
            "a version that its authors maintain, or the last one that they maintained",
            count,
        )
        for library, old, new, templates in _RAISED
        for template, count in templates.items()
    ),
)
