"""What ZooKeeper tells of its packets."""

from tests.bench.scenarios.idle import parse_packets


def test_packets_are_counted_both_ways() -> None:
    text = "zk_version\t3.8.0, built on\t2020\nzk_packets_received\t30\nzk_packets_sent\t12\nx"
    assert parse_packets(text) == 42
