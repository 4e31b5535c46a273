"""The pages: the cluster's stand in the place of pyspider's, and need no CDN."""

from edits.edit import Edit, Span

_APP = "pyspider/webui/app.py"
_RUN = "pyspider/run.py"
_OFFLINE = "the libraries are installed with the web UI; a CDN is asked only if one is named"
_NO_TEMPLATES = "no template is left that asks for a library"

REMOVED = (
    "pyspider/webui/static/webpack.config.js",
    "pyspider/webui/static/css_selector_helper.min.js",
    *(
        f"pyspider/webui/{name}"
        for page in ("index", "debug", "result", "task", "tasks")
        for name in (f"templates/{page}.html", f"static/{page}.min.js", f"static/{page}.min.css")
    ),
)
"""Pages in whose place the cluster's stand."""

EDITS: tuple[Edit | Span, ...] = (
    Span(
        _APP,
        "\n\ndef cdn_url_handler(",
        "app.handle_url_build_error",
        "",
        _NO_TEMPLATES,
    ),
    Edit(_APP, "app.handle_url_build_error = cdn_url_handler\n", "", _NO_TEMPLATES),
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
)
