"""Deliberate faults, to show that the judge finds them; Python reads this at its start.

A scheduler raises in some XML-RPC functions, and the web UI in some of its pages; the web UI also
keeps some memory with every request.
"""

import sys
import xmlrpc.server

KEPT_EACH = 6 * 2**20  # bytes
MOST_KEPT = 60
SPOILT_CALLS = ("size", "counter", "send_task", "list_batches", "list_events", "list_projects")
SPOILT_PAGES = ("/queues", "/counter", "/task", "/results", "/active_tasks", "/debug", "/update")
_kept = []
_register = xmlrpc.server.SimpleXMLRPCDispatcher.register_function


def _raise(*_):
    raise RuntimeError("deliberate")


def _spoil_web_ui():
    import flask

    answer = flask.Flask.full_dispatch_request

    def spoilt(self):
        if len(_kept) < MOST_KEPT:
            _kept.append(b"x" * KEPT_EACH)
        if flask.request.path.startswith(SPOILT_PAGES):
            _raise()
        return answer(self)

    flask.Flask.full_dispatch_request = spoilt


def _register_spoilt(self, function=None, name=None):
    return _register(self, _raise if name in SPOILT_CALLS else function, name)


xmlrpc.server.SimpleXMLRPCDispatcher.register_function = _register_spoilt
if "webui" in sys.orig_argv:
    _spoil_web_ui()
