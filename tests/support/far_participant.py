"""A participant in a process of its own: says its number and waits for the end of its input."""

import json
import sys

from pyspider_zk.config import Settings
from pyspider_zk.controller import WorkerController
from pyspider_zk.errors import ClusterError


def main() -> None:
    settings, group, options = (json.loads(word) for word in sys.argv[1:])
    try:
        with WorkerController(Settings(**settings), group, **options) as me:
            print(me.number, flush=True)  # noqa: T201 - the answer
            sys.stdin.read()
    except ClusterError as error:
        print(f"{type(error).__name__}: {error}", flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
