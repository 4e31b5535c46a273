"""What `up` decides and shows, without any process."""

import io
from pathlib import Path
from typing import Never

import pytest
from rich.console import Console

from pyspider_zk.cli import up
from pyspider_zk.cli.status import Overview
from pyspider_zk.cluster.records import Assignment, Cluster, Meta
from pyspider_zk.errors import ClusterError, Mismatch, MissingService, Unavailable
from pyspider_zk.local.plan import ProcessPlan, component_commands
from pyspider_zk.rendering import chromium
from tests.cli.conftest import Run
from tests.local.test_plan import ADDRESSES

NO_PROXY = {"phantomjs_proxy": None}


class ScaleAnswer:
    """Stands for the znode of `scale`."""

    def __init__(self, answer):
        self.answer = answer

    def get(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Herd:
    """As much of a cluster as `follow` sees."""

    schedulers = (0, 1, 2)

    def __init__(self):
        self.asked = []

    def scale(self, schedulers):
        self.asked.append(schedulers)


@pytest.mark.parametrize(
    ("answer", "asked"), [(5, [5]), (None, []), (3, []), (Unavailable("away"), [])]
)
def test_only_a_new_wish_is_followed(answer, asked):
    herd = Herd()
    up.follow(herd, ScaleAnswer(answer))
    assert herd.asked == asked


def of(slots: int) -> Overview:
    return Overview(Cluster(Meta(slots), Assignment.vacant(slots)), {})


def shown(console: Console, *answers: Overview | Exception) -> str:
    """Return what is shown if these are read one after the other."""
    left = list(answers)

    def read() -> Overview:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with up.screen(read, console) as show:
        for _ in answers:
            show()
    return console.file.getvalue()


def test_without_a_terminal_each_change_is_a_line():
    answers = (Mismatch("none"), of(4), of(4), Unavailable("away"), of(4))
    assert shown(Console(file=io.StringIO()), *answers).splitlines() == [
        "The schedulers are starting ...",
        "0 members, no leader, 4 slots, epoch 0",
        "away",
        "0 members, no leader, 4 slots, epoch 0",
    ]


@pytest.mark.parametrize("fault", ["[/x] is away", "[red] is away"])
def test_on_a_terminal_an_error_is_shown_as_it_is(fault):
    assert fault in shown(Console(file=io.StringIO(), force_terminal=True), Unavailable(fault))


def test_on_a_terminal_the_picture_is_drawn_in_place():
    console = Console(file=io.StringIO(), force_terminal=True, highlight=False, width=200)
    assert "8 slots" in shown(console, of(4), of(8))


def test_without_a_browser_up_starts_no_renderer_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chromium, "PROGRAMS", ())
    assert up._renderers(NO_PROXY, None) == 0
    assert "No renderer, so tasks with fetch_type='js' fail: Chromium" in capsys.readouterr().err
    assert up._renderers(NO_PROXY, 0) == 0
    assert up._renderers({"phantomjs_proxy": "browsers:25555"}, None) == 0
    assert capsys.readouterr().err == ""
    with pytest.raises(MissingService, match="Chromium is missing"):
        up._renderers(NO_PROXY, 1)


def test_with_one_up_starts_a_renderer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "PROGRAMS", ("true",))
    assert up._renderers(NO_PROXY, None) == 1
    assert up._renderers(NO_PROXY, 3) == 3


@pytest.mark.parametrize("path", ["--add-sys-path", "--not-add-sys-path"])
def test_what_is_said_to_up_is_said_to_its_processes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    (tmp_path / "my.conf").touch()
    plans: list[ProcessPlan] = []

    def planned(plan: ProcessPlan, **_: object) -> Never:
        plans.append(plan)
        raise ClusterError("nothing is started")

    monkeypatch.setattr(up, "LocalCluster", planned)
    run(
        *("--phantomjs-proxy", "browsers:25555", "--queue-maxsize", "7", path),
        *("--logging-config", "my.conf", "--amqp-url", "redis://queue:6379/0", "up"),
    )

    (plan,) = plans
    assert plan.message_queue == "redis://queue:6379/0"
    for command in component_commands(plan, ADDRESSES):
        assert command.environ["PHANTOMJS_PROXY"] == "browsers:25555"
        assert command.environ["QUEUE_MAXSIZE"] == "7"
        assert path in command.line
        assert command.line[command.line.index("--logging-config") + 1] == "my.conf"
