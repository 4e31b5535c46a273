"""The plain manifests are the chart with its default values."""

import os
import subprocess
from pathlib import Path

import yaml

from pyspider_zk import __version__
from tests.kubernetes.chart import CHART, HELM, ROOT, documents

MANIFESTS = ROOT / "deploy" / "kubernetes" / "pyspider-zk.yaml"
RENDER = ROOT / "deploy" / "render"


def test_the_manifests_are_in_step_with_the_chart(tmp_path: Path) -> None:
    environ = {**os.environ, "HELM": str(HELM)}
    subprocess.run([RENDER, tmp_path / "rendered.yaml"], env=environ, check=True)
    rendered = (tmp_path / "rendered.yaml").read_text(encoding="utf-8")
    assert MANIFESTS.read_text(encoding="utf-8") == rendered, "run deploy/render"


def test_the_manifests_have_no_secret_and_no_namespace_of_their_own() -> None:
    found = documents(MANIFESTS.read_text(encoding="utf-8"))
    assert len(found) > 20
    assert [each for each in found if each["kind"] == "Secret"] == []
    assert [each for each in found if "namespace" in each["metadata"]] == []


def test_the_chart_has_the_version_of_the_product() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
