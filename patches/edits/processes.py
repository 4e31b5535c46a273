"""Sub-processes: components are closures, which only a fork carries over."""

from edits.edit import Edit

EDITS = (
    Edit(
        "pyspider/libs/utils.py",
        "    from multiprocessing import Process\n    thread = Process(",
        "    from multiprocessing import get_context\n    thread = get_context('fork').Process(",
        "closures cannot be pickled, and fork is no longer the default on macOS and Python 3.14",
    ),
    Edit(
        "pyspider/libs/multiprocessing_queue.py",
        "    from multiprocessing import Queue  # flake8: noqa",
        "    def Queue(maxsize=0):\n"
        "        method = 'fork' if hasattr(os, 'fork') else None\n"
        "        return multiprocessing.get_context(method).Queue(maxsize)",
        "a queue has to come from the same context as the processes that share it",
    ),
    Edit(
        "pyspider/libs/multiprocessing_queue.py",
        "import six\nimport platform\n",
        "import os\nimport six\nimport platform\n",
        "os.fork tells whether there is a fork context",
    ),
)
