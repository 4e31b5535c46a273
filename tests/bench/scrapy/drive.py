"""Drives a scheduler of Scrapy's, in an environment that has Scrapy and nothing of ours.

Usage: ``python drive.py disk|redis FOLDER REDIS_URL SECONDS LINKS OLD``. One process: each page's
links go through the dupe filter into the queue, then the next request is taken out of it.
"""

import json
import logging
import random
import sys
import time
from resource import RUSAGE_SELF, getrusage

from scrapy import Request, Spider
from scrapy.utils.misc import load_object
from scrapy.utils.test import get_crawler

LOOK = 200  # pages between two looks at the clock
SCHEDULERS = {
    "disk": "scrapy.core.scheduler.Scheduler",
    "redis": "scrapy_redis.scheduler.Scheduler",
}


class Crawler(Spider):
    """A spider with the callback that its requests name."""

    name = "bench"

    def page(self, response):
        """Is never called."""


def scheduler_of(kind, folder, redis_url):
    """Return an open scheduler and its spider."""
    # Scrapy's simpler priority queue, the other one asks a downloader.
    settings = {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"}
    if kind == "disk":
        settings |= {"JOBDIR": folder}
    else:
        redis = "scrapy_redis.dupefilter.RFPDupeFilter"
        settings |= {"REDIS_URL": redis_url, "DUPEFILTER_CLASS": redis, "SCHEDULER_PERSIST": True}
    crawler = get_crawler(Crawler, settings)
    crawler.spider = spider = crawler._create_spider()
    scheduler = load_object(SCHEDULERS[kind]).from_crawler(crawler)
    scheduler.open(spider)
    return scheduler, spider


class LinkSpider:
    """Requests for new pages, and for some that were told of before."""

    def __init__(self, spider, count, old):
        self._callback = spider.page
        self._new, self._old = count - old, old
        self._told = 0
        self._random = random.Random(1)  # noqa: S311 - no secret

    def on_page(self):
        old = [self._random.randint(1, self._told) for _ in range(self._old if self._told else 0)]
        new = range(self._told + 1, self._told + 1 + self._new)
        self._told += self._new
        return [self._request(number) for number in [*old, *new]]

    def _request(self, number):
        return Request(f"http://p.example/page/{number}", callback=self._callback)


def drive(scheduler, links, seconds):
    pages, begin, cpu = 0, time.monotonic(), _cpu()
    while pages % LOOK or time.monotonic() - begin < seconds:
        for request in links.on_page():
            scheduler.enqueue_request(request)
        if scheduler.next_request() is None:
            raise RuntimeError("the queue is empty")
        pages += 1
    taken, used = time.monotonic() - begin, _cpu() - cpu
    return {"per_s": pages / taken, "cpu_s": used / pages, "share": used / taken, "cycles": pages}


def _cpu():
    used = getrusage(RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(kind, folder, redis_url, seconds, links, old):
    """Print the figures as JSON."""
    logging.basicConfig(level=logging.WARNING)
    scheduler, spider = scheduler_of(kind, folder, redis_url)
    found = drive(scheduler, LinkSpider(spider, int(links), int(old)), float(seconds))
    sys.stdout.write(json.dumps(found) + "\n")
    scheduler.close("finished")


if __name__ == "__main__":
    main(*sys.argv[1:])
