"""What the web UI is lent is taken back, whatever happened meanwhile."""

from contextlib import suppress
from types import SimpleNamespace

from pyspider_zk.webui.lent import configured, replaced


def test_settings_are_as_before_once_the_block_ends() -> None:
    config = {"kept": 1, "other": 2}

    with suppress(OSError), configured(config, {"kept": 7, "new": 8}):
        assert config == {"kept": 7, "other": 2, "new": 8}
        config["other"] = 3
        raise OSError("away")

    assert config == {"kept": 1, "other": 3}


def test_an_attribute_is_as_before_once_the_block_ends() -> None:
    owner = SimpleNamespace(app="before")

    with suppress(OSError), replaced(owner, "app", "now"):
        assert owner.app == "now"
        raise OSError("away")

    assert owner.app == "before"
