"""The pages: what they load comes from the web UI itself, so they work without the internet."""

from edits.edit import Edit, Span

_APP = "pyspider/webui/app.py"
_RUN = "pyspider/run.py"
_OFFLINE = "the libraries are installed with the web UI; a CDN is asked only if one is named"

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
        "who makes browsers load code from elsewhere shall see it",
    ),
    *(
        Span(
            f"pyspider/webui/templates/{name}.html",
            "    <!--[if lt IE 9]>\n",
            '    <meta name="description"',
            '    <link rel="icon" href="data:,">\n',
            "no script for Internet Explorer 8 from a server that is gone, and no 404 for an icon",
        )
        for name in ("debug", "index", "result", "task", "tasks")
    ),
)
