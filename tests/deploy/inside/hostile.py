"""The trial by hostile pages, in a container with the cluster's settings and secrets.

Usage: ``python -m tests.deploy.inside.hostile``, with ``HEALTHY`` and ``HOSTILE`` what the sites
printed at their start. Prints a line of JSON: the healthy project's seconds, and the faults.
"""

import json
import os

from pyspider.database import connect_database

from pyspider_zk.config import settings_from
from pyspider_zk.demo.crawl import DemoCrawl
from pyspider_zk.secret_files import URL_VARIABLES, take_from_files
from tests.hostile.kinds import KINDS
from tests.hostile.trial import BESIDE, HOSTILE, USUAL, Trial

PAGES = 300


def main() -> None:
    """Crawl, and tell."""
    take_from_files(os.environ, URL_VARIABLES)
    urls = (os.environ[name] for name in ("TASKDB", "PROJECTDB", "RESULTDB"))
    crawl = DemoCrawl((USUAL, BESIDE, HOSTILE), *map(connect_database, urls))
    sites = {name: json.loads(os.environ[name]) for name in ("HEALTHY", "HOSTILE")}
    home = sites["HEALTHY"][KINDS[0].name].rpartition("/")[0]
    settings = settings_from(environ=os.environ)
    trial = Trial(settings, crawl, home, sites["HOSTILE"], KINDS, PAGES)
    told = {"usual_s": round(trial.usual(), 1), "beside_s": round(trial.beside(), 1)}
    print(json.dumps({**told, "faults": list(trial.faults())}))  # noqa: T201


if __name__ == "__main__":
    main()
