"""Crawls a site with Scrapy, in an environment that has Scrapy and nothing of ours.

Usage: ``python crawl.py memory|redis ADDRESS REDIS_URL ITEMS GROUP...``. One process, as Scrapy
works; it prints how many pages that were, how many seconds they took, and of the processor.
"""

import json
import sys
import time
from resource import RUSAGE_SELF, getrusage

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess

SHARED = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
}


class SiteSpider(Spider):
    """Spider that follows every link, and makes an item of every page."""

    name = "site"

    async def start(self):
        """Yield the first page of each group."""
        for url in self.urls:
            yield Request(url)

    def parse(self, response):
        """Yield the links, and what the page is about."""
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)
        yield {"url": response.url, "title": response.css("title::text").get()}


def _cpu():
    used = getrusage(RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(kind, address, redis_url, items, *groups):
    """Print the figures as JSON."""
    settings = {
        "LOG_LEVEL": "INFO",
        "CONCURRENT_REQUESTS": 100,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 100,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": False,
        "FEEDS": {items: {"format": "jsonlines"}},
        "REDIS_URL": redis_url,
    } | (SHARED if kind == "redis" else {})
    process = CrawlerProcess(settings)
    crawler = process.create_crawler(SiteSpider)
    begin, cpu = time.monotonic(), _cpu()
    process.crawl(crawler, urls=[f"http://{address}/{group}/0.html" for group in groups])
    process.start()
    pages = crawler.stats.get_value("item_scraped_count")
    seconds, used = time.monotonic() - begin, _cpu() - cpu
    sys.stdout.write(json.dumps({"pages": pages, "seconds": seconds, "cpu_s": used}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
