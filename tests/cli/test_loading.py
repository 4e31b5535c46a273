"""A process loads what it needs."""

import subprocess
import sys

import pytest

from pyspider_zk import webui
from pyspider_zk.webui import instance
from tests.support.processes import ROOT


def test_only_the_web_ui_loads_the_web_ui() -> None:
    assert loaded_by_the_command("flask", "marshmallow") == "set()\n"


def test_only_databases_on_servers_load_what_connects_to_them() -> None:
    assert loaded_by_the_command("sqlalchemy") == "set()\n"


def loaded_by_the_command(*modules: str) -> str:
    code = f"import sys, pyspider_zk.cli.main; print({set(modules)!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    return done.stdout or done.stderr


def test_the_package_of_the_web_ui_has_what_pyspider_asks_for_and_nothing_else() -> None:
    assert webui.app is instance.app
    assert webui.ClusterWebUI is instance.ClusterWebUI
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = webui.nothing
