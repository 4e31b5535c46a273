"""What Prometheus has: ``python -m tests.deploy.inside.scraped``, with ``PASSWORD`` its login's.

Prints a line of JSON: the addresses of the processes whose metrics it got (``up``), how many
alert rules it has (``told``), and of those how many in which state of health (``rules``).
"""

import base64
import json
import os
import urllib.request
from collections import Counter
from typing import Any


def asked(path: str) -> Any:
    """Return the data of an answer of its API."""
    login = base64.b64encode(f"admin:{os.environ['PASSWORD']}".encode()).decode()
    url = f"http://prometheus:9090/api/v1/{path}"
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {login}"})
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - our own
        return json.load(answer)["data"]


def main() -> None:
    """Ask and print."""
    up = asked("query?query=up%7Bjob%3D%22pyspider-zk%22%7D%20%3D%3D%201")["result"]
    rules = [rule for group in asked("rules")["groups"] for rule in group["rules"]]
    found = {
        "up": sorted(each["metric"]["instance"].partition(":")[0] for each in up),
        "told": len(rules),
        "rules": Counter(rule["health"] for rule in rules),
    }
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
