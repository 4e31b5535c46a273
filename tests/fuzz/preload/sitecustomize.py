"""Deliberate faults, to show that the judge finds them; Python reads this at its start.

A scheduler raises in one XML-RPC function, and the web UI in one of its pages; the web UI also
keeps some memory with every request.
"""

import sys
import xmlrpc.server

KEPT_EACH = 6 * 2**20  # bytes
MOST_KEPT = 60
_kept = []


def _raise(*_):
    raise RuntimeError("deliberate")


def _spoil_web_ui():
    import flask

    answer = flask.Flask.full_dispatch_request

    def spoilt(self):
        if len(_kept) < MOST_KEPT:
            _kept.append(b"x" * KEPT_EACH)
        if flask.request.path == "/queues":
            _raise()
        return answer(self)

    flask.Flask.full_dispatch_request = spoilt


xmlrpc.server.SimpleXMLRPCDispatcher.system_methodHelp = _raise
if "webui" in sys.orig_argv:
    _spoil_web_ui()
