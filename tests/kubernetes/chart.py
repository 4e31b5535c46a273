"""The chart as Helm renders it."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "pyspider-zk"
HELM = Path(sys.executable).with_name("helm")
RELEASE = "crawl"
NAMESPACE = "spiders"

Document = dict[str, Any]


class RefusedValues(Exception):
    """Helm refused the values; its text says why."""


def render(
    values: Mapping[str, Any], chart: Path = CHART, release: str = RELEASE, *options: str
) -> list[Document]:
    """Return the documents of the chart.

    Raises:
        RefusedValues: they cannot be rendered with these values.
    """
    return documents(helm("template", release, chart, *options, values=values))


def helm(*words: object, values: Mapping[str, Any] | None = None) -> str:
    """Run Helm with values; return what it prints.

    Raises:
        RefusedValues: it fails.
    """
    command = [HELM, *map(str, words), "--namespace", NAMESPACE, "--values", "-"]
    text = json.dumps(dict(values or {}))
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RefusedValues(done.stderr + done.stdout)
    return done.stdout


def documents(text: str) -> list[Document]:
    """Return the documents of a text of YAML."""
    return [each for each in yaml.safe_load_all(text) if each]
