"""What a scheduler costs that has nothing to do: 10,000 projects, of which 100 run."""

import socket
import time
from functools import partial
from typing import Any

import redis

from tests.bench.bench import Bench
from tests.bench.contenders import ALL, OURS, STOCK, running
from tests.bench.crawl import BenchCrawl
from tests.bench.databases import add_projects
from tests.bench.links import Links
from tests.bench.turns import in_turn
from tests.bench.usage import usage_of

RUNNING = 100
REST = 3.0  # seconds for the events that come after the last task
SECONDS = 10.0  # at least: some work is done every ten seconds only


def scenario(bench: Bench) -> dict[str, Any]:
    """Return shares and rates by contender, with the first of the databases."""
    return in_turn(bench.size.runs, (STOCK.name, OURS.name), partial(_measured, bench))


def _measured(bench: Bench, contender: str) -> dict[str, Any]:
    place = bench.place(next(iter(bench.databases)))
    names = [f"p{number}" for number in range(RUNNING)]
    add_projects(place.databases, names)
    stopped = bench.size.stopped - RUNNING
    add_projects(place.databases, [f"s{number}" for number in range(stopped)], "STOP")
    with running(ALL[contender], place) as crew:
        BenchCrawl(crew, Links(names)).begin()
        time.sleep(REST)
        begin, cpu = time.monotonic(), usage_of(crew.pids).cpu
        commands, packets = redis_commands(bench.redis.url), zookeeper_packets(bench)
        asking = zookeeper_packets(bench) - packets
        time.sleep(max(SECONDS, bench.size.seconds))
        taken = time.monotonic() - begin
        return {
            "share": (usage_of(crew.pids).cpu - cpu) / taken,
            "redis_commands_per_s": (redis_commands(bench.redis.url) - commands) / taken,
            "zookeeper_packets_per_s": (zookeeper_packets(bench) - packets - 2 * asking) / taken,
            "peak_bytes": usage_of(crew.pids).peak,
        }


def redis_commands(url: str) -> int:
    """Return how many commands Redis has carried out, without those that ask it."""
    with redis.Redis.from_url(url) as client:
        told: Any = client.info("commandstats")
    asking = ("cmdstat_info", "cmdstat_client")
    return sum(each["calls"] for name, each in told.items() if not name.startswith(asking))


def zookeeper_packets(bench: Bench) -> int:
    """Return how many packets ZooKeeper has received and sent, with those of who asked before."""
    with socket.create_connection(("127.0.0.1", bench.zookeeper.port)) as link:
        link.sendall(b"mntr")
        return parse_packets(b"".join(iter(lambda: link.recv(65536), b"")).decode())


def parse_packets(text: str) -> int:
    """Return the packets in ZooKeeper's answer to ``mntr``."""
    fields = dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)
    return int(fields["zk_packets_received"]) + int(fields["zk_packets_sent"])
