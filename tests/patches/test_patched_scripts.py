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


@pytest.mark.parametrize(
    ("decorators", "tick"),
    [("@every(minutes=0.5)", 30.0), ("@every(minutes=1)", 60), ("@every(seconds=7)", 7)],
)
def test_cron_jobs_may_tick_in_fractions(decorators: str, tick: float) -> None:
    built = build(
        f"class Handler(BaseHandler):\n    {decorators}\n    def job(self):\n        pass\n"
    )
    assert built["class"]._min_tick == tick


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        ("text/html; charset=GB2312", "gb18030"),
        ('text/html; charset="iso-8859-1"', "iso-8859-1"),
        ("text/html", "utf-8"),
    ],
)
def test_the_encoding_comes_from_the_content_type(content_type: str, encoding: str) -> None:
    from pyspider.libs.response import rebuild_response

    page = {"headers": {"Content-Type": content_type}, "content": "é".encode() * 40}
    assert rebuild_response(page).encoding == encoding


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
