"""A loopback site, and pyspider's components on sqlite in threads of their own."""

import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

DEADLINE = 60.0

PAGES = {
    "/": '<title>front</title><a href="/1">1</a><a href="/2">2</a>',
    "/1": "<title>one</title>",
    "/2": "<title>two</title>",
}

SCRIPT = """
from pyspider.libs.base_handler import *


class Handler(BaseHandler):
    crawl_config = {'headers': {'X-Crawler': 'ours'}}

    @every(minutes=24 * 60)
    def on_start(self):
        self.crawl('__SITE__/', callback=self.front)

    def front(self, response):
        for each in response.doc('a').items():
            self.crawl(each.attr.href, callback=self.page)
        return {'title': response.doc('title').text()}

    def page(self, response):
        return {'title': response.doc('title').text()}

    def on_message(self, project, message):
        return {'message': message}
"""


class SpiderSite(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/never":
            self.server.release.wait()  # type: ignore[attr-defined]
        if self.path == "/cookie":
            return self._send(302, "", ("Location", "/seen"), ("Set-Cookie", "taste=sweet"))
        if self.path == "/astray":
            return self._send(302, "", ("Location", "http://["))
        if self.path == "/seen":
            return self._send(200, self.headers.get("Cookie", "none"))
        if self.path in PAGES:
            return self._send(200, PAGES[self.path])
        return self._send(404, "no such page")

    def _send(self, status: int, body: str, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", "text/html; charset=UTF-8"), *headers):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


class Spider:
    """The databases, the queues and the components of one pyspider in this process."""

    def __init__(self, folder: Path, queue_url: str | None = None) -> None:
        from pyspider.message_queue import connect_message_queue

        self.folder = folder
        names = ("newtask", "status", "out", "processing", "results")
        self.queues = {name: connect_message_queue(name, queue_url, 100) for name in names}
        self.threads: list[tuple[Any, threading.Thread]] = []
        self.proxies: list[Any] = []

    @property
    def taskdb(self) -> Any:
        return self._database("taskdb")

    @property
    def projectdb(self) -> Any:
        return self._database("projectdb")

    @property
    def resultdb(self) -> Any:
        return self._database("resultdb")

    def _database(self, kind: str) -> Any:
        from pyspider.database import connect_database

        return connect_database(f"sqlite+{kind}:///{self.folder}/{kind}.sqlite")

    def scheduler(self, cls: str = "ThreadBaseScheduler", **kwargs: Any) -> Any:
        import pyspider.scheduler

        return getattr(pyspider.scheduler, cls)(
            taskdb=self.taskdb,
            projectdb=self.projectdb,
            resultdb=self.resultdb,
            newtask_queue=self.queues["newtask"],
            status_queue=self.queues["status"],
            out_queue=self.queues["out"],
            data_path=str(self.folder),
            **kwargs,
        )

    def fetcher(self, **kwargs: Any) -> Any:
        from pyspider.fetcher import Fetcher

        return Fetcher(self.queues["out"], self.queues["processing"], **kwargs)

    def processor(self) -> Any:
        from pyspider.processor import Processor

        return Processor(
            self.projectdb,
            self.queues["processing"],
            self.queues["status"],
            self.queues["newtask"],
            self.queues["results"],
            process_time_limit=0,
        )

    def result_worker(self) -> Any:
        from pyspider.result import ResultWorker

        return ResultWorker(self.resultdb, self.queues["results"])

    def start(self, component: Any, method: str = "run", **kwargs: Any) -> threading.Thread:
        """Run a method of the component in a thread, until stop()."""
        target = getattr(component, method)
        thread = threading.Thread(target=target, kwargs=kwargs, name=f"{component}.{method}")
        thread.start()
        self.threads.append((component, thread))
        return thread

    def serve(self, component: Any) -> Any:
        """Start the component's XML-RPC interface on a free port; return a client of it."""
        self.start(component, "xmlrpc_run", port=0)
        assert component.xmlrpc_ready.wait(DEADLINE)
        return self.client(component.xmlrpc_port)

    def client(self, port: int) -> Any:
        from xmlrpc.client import ServerProxy

        proxy = ServerProxy(f"http://127.0.0.1:{port}", allow_none=True)
        self.proxies.append(proxy)
        return proxy

    def add_project(self, name: str, script: str, **fields: Any) -> None:
        project = {"status": "RUNNING", "group": None, "rate": 1000, "burst": 1000, **fields}
        self.projectdb.insert(name, {"name": name, "script": script, "comments": None, **project})

    def titles(self, project: str) -> set[str]:
        return {row["result"]["title"] for row in self.resultdb.select(project)}

    def stop(self) -> None:
        for proxy in self.proxies:
            proxy("close")()
        for component, _ in self.threads:
            component.quit()
        for _, thread in self.threads:
            thread.join(DEADLINE)
            assert not thread.is_alive(), thread.name
        for queue in self.queues.values():
            if hasattr(queue, "close"):
                queue.close()
                queue.join_thread()
        forget_projects()


def forget_projects() -> None:
    """Take back what a processor or a debugged script did to the import system."""
    from pyspider.processor.project_module import ProjectFinder, forget_imported

    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, ProjectFinder)]
    forget_imported()
