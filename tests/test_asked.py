"""What callers ask for as plain values."""

import subprocess
import sys

FIRST_READERS = """
import sys, threading
from dataclasses import make_dataclass
from enum import StrEnum
from pyspider_zk.asked import parsed

sys.setswitchinterval(1e-6)
for number in range(100):
    words = {f"x{n}": StrEnum(f"Word{n}", ["A", "B"]) for n in range(20)}
    kind = make_dataclass(f"Kind{number}", [(name, word, word.A) for name, word in words.items()])
    asked = dict.fromkeys(words, "b")
    start = threading.Barrier(4)
    readers = [
        threading.Thread(target=lambda: (start.wait(), parsed(kind, "it", asked)))
        for _ in range(4)
    ]
    for each in readers:
        each.start()
    for each in readers:
        each.join()
"""


def test_threads_that_are_the_first_to_ask_for_a_kind_end_no_process() -> None:
    ended = subprocess.run([sys.executable, "-c", FIRST_READERS], capture_output=True, text=True)

    assert (ended.returncode, ended.stderr) == (0, "")
