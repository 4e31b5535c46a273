"""Listening addresses: loopback unless an option says otherwise; browsers are refused."""

from edits.edit import Edit

_BROWSER = "a page of any site can make a browser post to an address that only its machine reaches"
_RPC = "pyspider/libs/wsgi_xmlrpc.py"
_PHANTOMJS = "pyspider/fetcher/phantomjs_fetcher.js"
_LOOPBACK = "it opens whatever page it is told to, and listened on every address"

EDITS = (
    Edit(
        _RPC,
        "        if environ['REQUEST_METHOD'] == 'POST':\n",
        "        kind = environ.get('CONTENT_TYPE', '').partition(';')[0].strip().lower()\n"
        "        if 'HTTP_ORIGIN' in environ or 'HTTP_SEC_FETCH_SITE' in environ:\n"
        "            start_response('403 Calls from browsers are refused', [])\n"
        "            return [b'']\n"
        "        if environ['REQUEST_METHOD'] == 'POST' and kind != 'text/xml':\n"
        "            start_response('415 The Content-Type must be text/xml', [])\n"
        "            return [b'']\n"
        "        if environ['REQUEST_METHOD'] == 'POST':\n",
        _BROWSER,
    ),
    Edit(
        _PHANTOMJS,
        "  service = server.listen(port, {\n",
        "  if (port.indexOf(':') < 0) {\n"
        "    port = '127.0.0.1:' + port;\n"
        "  }\n"
        "  service = server.listen(port, {\n",
        _LOOPBACK,
    ),
    Edit(
        _PHANTOMJS,
        "    if (request.method == 'GET') {\n",
        "    var browser = Object.keys(request.headers || {}).some(function(name) {\n"
        "      return /^(origin|sec-fetch-site)$/i.test(name);\n"
        "    });\n"
        "    if (request.method == 'GET' || browser) {\n",
        _BROWSER,
    ),
    Edit(
        "pyspider/run.py",
        "@click.option('--port', default=25555, help='phantomjs port')\n",
        "@click.option('--host', default='127.0.0.1', show_default=True,\n"
        "              help='phantomjs binds to host')\n"
        "@click.option('--port', default=25555, help='phantomjs port')\n",
        _LOOPBACK,
    ),
    Edit(
        "pyspider/run.py",
        "def phantomjs(ctx, phantomjs_path, port, auto_restart, args):\n",
        "def phantomjs(ctx, phantomjs_path, host, port, auto_restart, args):\n",
        _LOOPBACK,
    ),
    Edit(
        "pyspider/run.py",
        "[phantomjs_fetcher, str(port)]\n",
        "[phantomjs_fetcher, '%s:%s' % (host, port)]\n",
        _LOOPBACK,
    ),
)
