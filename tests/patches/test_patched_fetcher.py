"""What the fetcher returns, and where it may be called."""

import asyncio
from typing import Any

import pytest


def task(url: str, **fetch: Any) -> dict[str, Any]:
    return {"project": "demo", "taskid": "t", "url": url, "fetch": fetch}


def test_a_page_is_fetched(fetcher: Any, site: str) -> None:
    result = fetcher.fetch(task(f"{site}/1"))
    assert result["status_code"] == 200
    assert result["content"] == b"<title>one</title>"


def test_a_page_is_fetched_inside_a_running_loop(fetcher: Any, site: str) -> None:
    async def inside() -> Any:
        return fetcher.fetch(task(f"{site}/1"))

    assert asyncio.run(inside())["status_code"] == 200


def test_an_error_page_is_a_result(fetcher: Any, site: str) -> None:
    result = fetcher.fetch(task(f"{site}/absent"))
    assert result["status_code"] == 404
    assert result["content"] == b"no such page"


def test_a_refused_connection_is_a_599(fetcher: Any) -> None:
    assert fetcher.fetch(task("http://127.0.0.1:1/"))["status_code"] == 599


def test_a_redirect_takes_its_cookies_along(fetcher: Any, site: str) -> None:
    result = fetcher.fetch(task(f"{site}/cookie"))
    assert result["url"] == f"{site}/seen"
    assert result["content"] == b"taste=sweet"
    assert result["cookies"] == {"taste": "sweet"}


def test_a_site_without_robots_txt_may_be_fetched(fetcher: Any, site: str) -> None:
    assert fetcher.fetch(task(f"{site}/1", robots_txt=True))["status_code"] == 200


def test_old_robots_txts_are_forgotten(fetcher: Any, site: str) -> None:
    fetcher.fetch(task(f"{site}/1", robots_txt=True))
    fetcher.robot_txt_age = -1
    fetcher.clear_robot_txt_cache()
    assert fetcher.robots_txt_cache == {}


def test_a_data_url_is_its_own_content(fetcher: Any) -> None:
    assert fetcher.fetch(task("data:,hello"))["content"] == "hello"


def test_tls_certificates_are_verified_unless_the_task_says_otherwise(fetcher: Any) -> None:
    assert "validate_cert" not in fetcher.pack_tornado_request_parameters("https://x/", task("x"))


@pytest.mark.parametrize(
    "value", ["[BASE64-DATA]a[/BASE64-DATA]", "[BASE64-DATA]\u2603[/BASE64-DATA]", {7: "x"}]
)
def test_what_only_looks_like_packed_bytes_stays_as_it_is(value: Any) -> None:
    from pyspider.libs.utils import decode_unicode_obj

    assert decode_unicode_obj({"save": [value], "url": "u"}) == {"save": [value], "url": "u"}


def test_packed_bytes_are_unpacked() -> None:
    from pyspider.libs.utils import decode_unicode_obj

    packed = {"data": "[BASE64-DATA]/wA=[/BASE64-DATA]"}
    assert decode_unicode_obj(packed) == {"data": b"\xff\x00"}
