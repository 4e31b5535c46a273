"""The scheduler: its XML-RPC server, and `one`, where it drives the fetcher's loop."""

from edits.edit import Edit, Span

_FILE = "pyspider/scheduler/scheduler.py"
_LOOP = "Tornado 6 has no io_loop argument: a timer takes the loop it starts in"
_QUIT = "quit() has to end every thread and free the port, whoever calls it"

EDITS = (
    Edit(
        _FILE,
        "        self._quit = False\n        self._exceptions = 0\n",
        "        self._quit = False\n"
        "        self.xmlrpc_server = None\n"
        "        self.xmlrpc_port = None\n"
        "        self.xmlrpc_ready = threading.Event()\n"
        "        self._exceptions = 0\n",
        "port 0 is of use only if the bound port can be found out",
    ),
    Edit(
        _FILE,
        "import os\nimport time\nfrom collections import deque\n",
        "import os\nimport threading\nimport time\nfrom collections import deque\n",
        "the constructor makes an Event",
    ),
    Span(
        _FILE,
        "        if hasattr(self, 'xmlrpc_server'):\n",
        "    def run_once(self):\n        '''comsume",
        "        if self.xmlrpc_server:\n            self.xmlrpc_server.stop()\n\n",
        _QUIT,
    ),
    Span(
        _FILE,
        "        import tornado.wsgi\n",
        "    def on_request(self, task):\n        if self.INQUEUE_LIMIT",
        "        from pyspider.libs.wsgi_server import WSGIServer\n"
        "        self.xmlrpc_server = WSGIServer(application, port, bind)\n"
        "        self.xmlrpc_port = self.xmlrpc_server.port\n"
        "        if self._quit:\n"
        "            self.xmlrpc_server.stop()\n"
        "        self.xmlrpc_ready.set()\n"
        "        logger.info('scheduler.xmlrpc listening on %s:%s', bind, self.xmlrpc_port)\n"
        "        self.xmlrpc_server.run()\n"
        "\n",
        _QUIT,
    ),
    Span(
        _FILE,
        "        result = yield gen.Task(self.fetcher.fetch, task)\n",
        "        self.processor.on_task(task, response)\n        # do with message\n",
        "        response = yield self.fetcher.fetch(task, lambda type, task, result: None)\n",
        "gen.Task is gone; the fetch is a future itself",
    ),
    Span(
        _FILE,
        "        tornado.ioloop.PeriodicCallback(self.run_once, 100,\n",
        '        logger.info("scheduler exiting...")\n\n\nimport random\n',
        "        timer = tornado.ioloop.PeriodicCallback(self.run_once, 100)\n"
        "        self.ioloop.add_callback(timer.start)\n"
        "        try:\n"
        "            self.ioloop.start()\n"
        "        except KeyboardInterrupt:\n"
        "            pass\n"
        "\n"
        "    def quit(self):\n"
        "        super(OneScheduler, self).quit()\n"
        "        self.ioloop.add_callback(self.ioloop.stop)\n",
        _LOOP + "; stop() is not for other threads",
    ),
    Edit(
        _FILE,
        "        while True:\n            method, args, kwargs = queue.get()\n",
        "        for method, args, kwargs in iter(queue.get, None):\n",
        "the worker threads end with run()",
    ),
    Edit(
        _FILE,
        "    def run_once(self):\n        super(ThreadBaseScheduler, self).run_once()",
        "    def run(self):\n"
        "        super(ThreadBaseScheduler, self).run()\n"
        "        for queue in self.thread_queues:\n"
        "            queue.put(None)\n"
        "\n"
        "    def run_once(self):\n"
        "        super(ThreadBaseScheduler, self).run_once()",
        "the worker threads end with run()",
    ),
)
