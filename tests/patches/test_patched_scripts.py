"""Scripts: how they are loaded, imported, inspected and debugged."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patches.spiders import Spider

BASE = "from pyspider.libs.base_handler import *\n"


@pytest.fixture(autouse=True)
def unchanged_sys_path() -> Iterator[None]:
    path = list(sys.path)
    yield
    sys.path[:] = path


def build(script: str, name: str = "demo") -> Any:
    from pyspider.processor.project_module import ProjectManager

    return ProjectManager.build_module({"name": name, "script": BASE + script})


def run(built: Any, callback: str, **response: Any) -> Any:
    task = {"project": "demo", "taskid": "t", "url": "data:,", "process": {"callback": callback}}
    fetched = {"status_code": 200, "url": "http://x/", "content": b"", **response}
    return built["instance"].run_task(built["module"], task, fetched)


def test_a_traceback_shows_the_lines_of_the_script() -> None:
    built = build("class Handler(BaseHandler):\n    def page(self, r):\n        return 1 / 0\n")
    other = build("class Handler(BaseHandler):\n    pass\n", "other")
    result = run(built, "page")
    assert other["instance"].project_name == "other"
    assert isinstance(result.exception, ZeroDivisionError)
    assert 'File "<demo>", line 4, in page\n        return 1 / 0' in result.logstr()


def test_what_a_script_prints_is_in_its_log() -> None:
    built = build("class Handler(BaseHandler):\n    def page(self, r):\n        print('seen')\n")
    assert "seen" in run(built, "page").logstr()


def test_a_script_may_start_with_a_byte_order_mark() -> None:
    from pyspider.processor.project_module import ProjectManager

    script = "\ufeff" + BASE + "class Handler(BaseHandler):\n    pass\n"
    assert ProjectManager.build_module({"name": "demo", "script": script})["instance"]


def test_a_callback_takes_as_many_arguments_as_it_wants() -> None:
    built = build(
        "class Handler(BaseHandler):\n"
        "    def none(self):\n        return 'none'\n"
        "    def one(self, response: object) -> str:\n        return response.url\n"
        "    def two(self, response, task):\n        return task['taskid']\n"
    )
    assert [run(built, name).result for name in ("none", "one", "two")] == [
        "none",
        "http://x/",
        "t",
    ]


def ticking(*intervals: str) -> Any:
    jobs = "".join(
        f"    @every({interval})\n    def job{number}(self):\n        ran.append({number})\n"
        for number, interval in enumerate(intervals)
    )
    return build(f"ran = []\nclass Handler(BaseHandler):\n    pass\n{jobs}")


def ran_at(built: Any, seconds: range) -> dict[int, list[int]]:
    """Return when each method runs if a scheduler sends a script its ticks."""
    ran: dict[int, list[int]] = {}
    step = int(built["class"]._min_tick)
    for second in seconds[::step] if step else ():
        assert run(built, "_on_cronjob", save={"tick": second}).exception is None
        for job in built["module"].ran:
            ran.setdefault(job, []).append(second)
        built["module"].ran.clear()
    return ran


@pytest.mark.parametrize(
    ("intervals", "tick"),
    [
        (("minutes=0.5",), 30),
        (("minutes=1",), 60),
        (("seconds=7",), 7),
        (("seconds=60", "minutes=1.5"), 30),
        (("minutes=0.1", "minutes=0.3"), 6),
        ((), 0),
    ],
)
def test_a_script_is_called_as_rarely_as_its_intervals_permit(
    intervals: tuple[str, ...], tick: int
) -> None:
    assert ticking(*intervals)["class"]._min_tick == tick


def test_intervals_without_a_common_divisor_are_kept() -> None:
    ran = ran_at(ticking("minutes=0.29", "minutes=1"), range(1800))
    assert ran[1] == [*range(0, 1800, 60)]
    assert ran[0][:6] == [0, 18, 35, 53, 70, 87]
    assert len(ran[0]) == 1 + int(1799 / 17.4)


@pytest.mark.parametrize("seconds", [1.5, 2.5, 60 / 3.7])
def test_a_fraction_of_a_second_is_made_up_for(seconds: float) -> None:
    begin = 1_700_000_000
    (ran,) = ran_at(ticking(f"seconds={seconds}"), range(begin, begin + 3000)).values()
    assert abs(len(ran) - 3000 / seconds) <= 1


@pytest.mark.parametrize("interval", ["minutes=0", "seconds=0.4", "seconds=-5", "float('nan')"])
def test_an_interval_that_cannot_be_kept_is_refused_with_the_remedy(interval: str) -> None:
    with pytest.raises(ValueError, match=r"@every of job0.*choose one from 1 second up"):
        ticking(interval)


def test_inherited_methods_are_called_too() -> None:
    built = build(
        "ran = []\n"
        "class Mixed:\n"
        "    @every(seconds=20)\n    def mixed(self):\n        ran.append('mixed')\n"
        "class Base(BaseHandler):\n"
        "    @every(seconds=10)\n    def inherited(self):\n        ran.append('inherited')\n"
        "    @every(seconds=10)\n    def replaced(self):\n        ran.append('replaced')\n"
        "    @every(seconds=10)\n    def off(self):\n        ran.append('off')\n"
        "class Handler(Mixed, Base):\n"
        "    @every(seconds=30)\n    def replaced(self):\n        ran.append('replacing')\n"
        "    def off(self):\n        pass\n"
    )
    assert built["class"]._min_tick == 10
    ran = {}
    for tick in (10, 20, 30):
        run(built, "_on_cronjob", save={"tick": tick})
        ran[tick] = sorted(built["module"].ran)
        built["module"].ran.clear()
    assert ran == {
        10: ["inherited"],
        20: ["inherited", "mixed"],
        30: ["inherited", "replacing"],
    }


def test_a_fetch_error_keeps_its_traceback() -> None:
    built = build("class Handler(BaseHandler):\n    def page(self, r):\n        pass\n")
    traceback = (
        'Traceback (most recent call last):\n  File "there.py", line 3, in far\n    boom()\n'
        "ValueError: gone\n"
    )
    result = run(built, "page", status_code=599, error="gone", traceback=traceback)
    assert 'File "there.py", line 3, in far' in result.logstr()


def test_a_project_may_import_another_one(spider: Spider) -> None:
    spider.add_project("library", "NAME = 'library'\n")
    processor = spider.processor()
    built = build(
        "from projects import library\n"
        "class Handler(BaseHandler):\n    def page(self, r):\n        return library.NAME\n"
    )
    assert processor.projectdb.get("library")
    assert run(built, "page").result == "library"


def test_a_cron_job_without_a_project_to_import_fails_as_an_import_does(spider: Spider) -> None:
    processor = spider.processor()
    assert processor.project_manager
    with pytest.raises(ImportError):
        build("from projects import absent\n")


def test_every_module_is_free_of_deprecated_syntax() -> None:
    import pyspider

    for path in Path(pyspider.__file__).parent.rglob("*.py"):
        compile(path.read_bytes(), str(path), "exec")
