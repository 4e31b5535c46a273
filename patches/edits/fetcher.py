"""The fetcher: `async` is a keyword, and in Tornado 6 a loop belongs to the thread that runs it."""

from edits.edit import Edit, Span

_FILE = "pyspider/fetcher/tornado_fetcher.py"
_ASYNC = "async is a keyword since Python 3.7; upstream's later name is async_mode"
_LOOP = (
    "Tornado 6 has no io_loop argument: clients and timers take the loop they start in;"
    " a subclass that knows when there are tasks has a take_tasks of its own"
)
_QUIT = "quit() has to end every thread and free the ports, whoever calls it"

EDITS = (
    Edit(
        "pyspider/libs/utils.py",
        "    if string.startswith('[BASE64-DATA]') and string.endswith('[/BASE64-DATA]'):\n"
        "        return base64.b64decode(string[len('[BASE64-DATA]'):-len('[/BASE64-DATA]')])\n"
        "    return string\n",
        "    begin, end = '[BASE64-DATA]', '[/BASE64-DATA]'\n"
        "    try:\n"
        "        if string.startswith(begin) and string.endswith(end):\n"
        "            return base64.b64decode(string[len(begin):-len(end)])\n"
        "    except (AttributeError, ValueError):\n"
        "        pass\n"
        "    return string\n",
        "what only looks like packed bytes, or is no text, made the fetcher lose the task",
    ),
    Edit(
        _FILE,
        'open(os.path.join(os.path.dirname(__file__), "splash_fetcher.lua")).read()',
        'pathlib.Path(__file__).with_name("splash_fetcher.lua").read_text()',
        "a file that nobody closes is a ResourceWarning",
    ),
    Edit(
        _FILE,
        "import logging\nimport traceback\n",
        "import logging\nimport pathlib\nimport traceback\n",
        "reads a file above",
    ),
    Edit(_FILE, "proxy=None, async=True):", "proxy=None, async_mode=True):", _ASYNC),
    Edit(_FILE, "self.async = async\n", "self.async_mode = async_mode\n", _ASYNC),
    Edit(
        _FILE,
        "import functools\nimport threading\n",
        "import functools\nimport threading\nimport concurrent.futures\n",
        "waiting for another thread's fetch needs a result that can be cancelled",
    ),
    Edit(
        _FILE,
        "        self.ioloop = tornado.ioloop.IOLoop()\n",
        "        self.ioloop = tornado.ioloop.IOLoop(make_current=False)\n"
        "        self._alone = threading.Lock()\n"
        "        self._waiting = set()\n"
        "        self.xmlrpc_server = None\n"
        "        self.xmlrpc_port = None\n"
        "        self.xmlrpc_ready = threading.Event()\n",
        _LOOP,
    ),
    Span(
        _FILE,
        "        if self.async:\n            self.http_client",
        "\n        self._cnt = {",
        "        self._run_alone(self._make_client)\n",
        _LOOP,
    ),
    Span(
        _FILE,
        "        if self.async:\n            return self.async_fetch",
        "    @gen.coroutine\n    def async_fetch",
        "        if self.async_mode:\n"
        "            return self.async_fetch(task, callback)\n"
        "        else:\n"
        "            return self._run_alone(functools.partial(self.async_fetch, task, callback))\n"
        "\n"
        "    def _make_client(self):\n"
        "        self.http_client = MyCurlAsyncHTTPClient(\n"
        "            force_instance=True, max_clients=self.poolsize,\n"
        "            page_limit=self.page_limit, memory=self.page_memory,\n"
        "            destinations=Destinations(self.forbidden_networks))\n"
        "\n"
        "    def _run_alone(self, func):\n"
        "        '''Run func in our loop, which nobody else runs, and return its result.\n"
        "\n"
        "        A thread of its own does it: the caller, as the web UI, may be inside a loop.\n"
        "        '''\n"
        "        with self._alone, concurrent.futures.ThreadPoolExecutor(1) as thread:\n"
        "            return thread.submit(self.ioloop.run_sync, func).result()\n"
        "\n",
        "Tornado's blocking client refuses to work inside a running loop, where the web UI is",
    ),
    Span(
        _FILE,
        "            return self.ioloop.run_sync(functools.partial(self.async_fetch, task, lambda",
        "    def data_fetch(self, url, task):",
        "            return self._run_alone(\n"
        "                functools.partial(self.async_fetch, task, lambda t, _, r: True))\n"
        "\n"
        "        waiting = concurrent.futures.Future()\n"
        "        self._waiting.add(waiting)\n"
        "        self.ioloop.add_callback(\n"
        "            self.fetch, task, lambda type, task, result: waiting.set_result(result))\n"
        "        if self._quit:\n"
        "            waiting.cancel()\n"
        "        try:\n"
        "            return waiting.result()\n"
        "        finally:\n"
        "            self._waiting.discard(waiting)\n"
        "\n",
        "a fetch which quit() interrupts must not keep the XML-RPC thread waiting for ever",
    ),
    Edit(
        _FILE,
        "                content = ''\n\n            try:\n",
        "                content = b''\n\n            try:\n",
        "str has no decode: a site without robots.txt could not be fetched",
    ),
    Edit(
        _FILE,
        "in self.robots_txt_cache.items():",
        "in list(self.robots_txt_cache.items()):",
        "a dict must not change while it is iterated",
    ),
    Span(
        _FILE,
        "        tornado.ioloop.PeriodicCallback(queue_loop, 100, io_loop=self.ioloop).start()\n",
        "        self._running = True\n",
        "        for callback, milliseconds in (\n"
        "                (getattr(self, 'take_tasks', queue_loop), 100),\n"
        "                (self.clear_robot_txt_cache, 10000)):\n"
        "            timer = tornado.ioloop.PeriodicCallback(callback, milliseconds)\n"
        "            self.ioloop.add_callback(timer.start)\n",
        _LOOP,
    ),
    Edit(
        _FILE,
        '        logger.info("fetcher exiting...")\n',
        "        self._running = False\n"
        "        self._quit = True\n"
        "        for waiting in list(self._waiting):\n"
        "            waiting.cancel()\n"
        "        self.close()\n"
        '        logger.info("fetcher exiting...")\n',
        _QUIT,
    ),
    Span(
        _FILE,
        "        if hasattr(self, 'xmlrpc_server'):\n",
        "    def size(self):\n",
        "        if self.xmlrpc_server:\n"
        "            self.xmlrpc_server.stop()\n"
        "\n"
        "    def close(self):\n"
        "        '''Free the loop and the connections of a fetcher that is not running'''\n"
        "        self.http_client.close()\n"
        "        self.ioloop.close(all_fds=True)\n"
        "\n",
        _QUIT,
    ),
    Span(
        _FILE,
        "        import tornado.wsgi\n",
        "    def on_fetch(self, type, task):\n",
        "        from pyspider.libs.wsgi_server import WSGIServer\n"
        "        self.xmlrpc_server = WSGIServer(application, port, bind)\n"
        "        self.xmlrpc_port = self.xmlrpc_server.port\n"
        "        if self._quit:\n"
        "            self.xmlrpc_server.stop()\n"
        "        self.xmlrpc_ready.set()\n"
        "        logger.info('fetcher.xmlrpc listening on %s:%s', bind, self.xmlrpc_port)\n"
        "        self.xmlrpc_server.run()\n"
        "\n",
        _QUIT,
    ),
)
