"""``python -m tests.fuzz``: fuzz surfaces for some time, or put kept inputs in again."""

import argparse
import logging
import random
import sys
import tempfile
from pathlib import Path

from tests.fuzz import poisoning
from tests.fuzz.inputs import load
from tests.fuzz.judge import say
from tests.fuzz.run import FuzzVerdict, fuzz, replay
from tests.fuzz.target import ALL


def main() -> int:
    """Run; return 0 if nothing is wrong."""
    if sys.argv[1:2] == ["catalogue"]:
        return poisoning.main(sys.argv[2:])
    asked = _arguments()
    logging.getLogger("pyspider_zk").setLevel(logging.CRITICAL)  # it says what all others say
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="fuzz-"))
    verdict = _run(asked, folder)
    say("\n".join(["the verdict", *verdict.lines()]))
    say(f"{'good' if verdict.good else 'BAD'}; {folder}")
    return 0 if verdict.good else 1


def _run(asked: argparse.Namespace, folder: Path) -> FuzzVerdict:
    if asked.replay:
        return replay(folder, load(asked.replay))
    say(f"seed {asked.seed}")
    return fuzz(folder, asked.what, asked.seconds, str(asked.seed))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--what", type=_surfaces, default=list(ALL), help=f"of {','.join(ALL)}")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--replay", type=Path, help="a file that a former run left")
    parser.add_argument("--folder", type=Path, help="where data, logs and findings are left")
    return parser.parse_args()


def _surfaces(text: str) -> list[str]:
    names = text.split(",")
    strange = [name for name in names if name not in ALL]
    if strange:
        raise argparse.ArgumentTypeError(f"no surface {strange[0]}; known are {', '.join(ALL)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
