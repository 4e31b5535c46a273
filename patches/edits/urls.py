"""URLs from tasks, sites and scripts: a bad one is a failed fetch that names it, no traceback."""

from edits.edit import Edit

_FETCHER = "pyspider/fetcher/tornado_fetcher.py"
_URL = "pyspider/libs/url.py"
_FAILED = "what a URL says is no fault of the fetcher's, so its log needs no traceback"
_WHICH = "the error of a script that crawls a bad URL did not say which one"

EDITS = (
    Edit(
        _FETCHER,
        "from pyspider.libs.url import quote_chinese\n",
        "from pyspider.libs import fetchable\nfrom pyspider.libs.url import quote_chinese\n",
        "used below",
    ),
    Edit(
        _FETCHER,
        "        except Exception as e:\n"
        "            logger.exception(e)\n"
        "            result = self.handle_error(",
        "        except Exception as e:\n"
        "            if not isinstance(e, fetchable.BadURL):\n"
        "                logger.exception(e)\n"
        "            result = self.handle_error(",
        _FAILED,
    ),
    Edit(
        _FETCHER,
        "            'traceback': traceback.format_exc() if sys.exc_info()[0] else None,\n",
        "            'traceback': traceback.format_exc()\n"
        "            if sys.exc_info()[0] and not isinstance(error, fetchable.BadURL) else None,\n",
        _FAILED,
    ),
    Edit(_FETCHER, "dataurl.decode(url)", "fetchable.decode_data_url(url)", _FAILED),
    Edit(_FETCHER, "urlsplit(proxy_string)", "fetchable.split_proxy(proxy_string)", _FAILED),
    Edit(
        _FETCHER,
        "        fetch['url'] = url\n        fetch['headers']",
        "        fetchable.check_url(url)\n        fetch['url'] = url\n        fetch['headers']",
        _FAILED,
    ),
    Edit(
        _FETCHER,
        "        parsed = urlsplit(url)\n",
        "        fetchable.check_sendable(url)\n        parsed = urlsplit(url)\n",
        _FAILED,
    ),
    Edit(
        _FETCHER,
        "        while True:\n            # robots.txt\n",
        "        while True:\n"
        "            fetchable.check_sendable(fetch['url'])\n"
        "            # robots.txt\n",
        _FAILED,
    ),
    Edit(
        _FETCHER,
        "quote_chinese(urljoin(fetch['url'], response.headers['Location']))",
        "quote_chinese(\n"
        "                    fetchable.join_url(fetch['url'], response.headers['Location']))",
        _FAILED,
    ),
    Edit(
        _FETCHER,
        "robot_txt.parse(content.splitlines())",
        "robot_txt.parse(fetchable.readable_rules(content.splitlines()))",
        "one odd line of a site's robots.txt made every page of the site fail",
    ),
    Edit(
        _FETCHER,
        "                logger.exception(fetch)\n",
        "",
        "it logged cookies, passwords and data of the task; the line below names the error",
    ),
    Edit(
        _FETCHER,
        "                     url, error, result['time'])\n",
        "                     fetchable.loggable(url), error, result['time'])\n",
        "half a surrogate in a URL cannot be written to a log",
    ),
    Edit(
        _URL,
        "from requests.models import RequestEncodingMixin\n",
        "from requests.models import RequestEncodingMixin\n"
        "\n"
        "from pyspider.libs.fetchable import bad_url\n",
        _WHICH,
    ),
    Edit(
        _URL,
        "    scheme, netloc, path, params, query, fragment = urlparse(url)\n"
        "    netloc = netloc.encode('idna').decode('utf-8')\n",
        "    try:\n"
        "        scheme, netloc, path, params, query, fragment = urlparse(url)\n"
        "        netloc = netloc.encode('idna').decode('utf-8')\n"
        "    except ValueError as error:\n"
        "        raise bad_url(url, error) from error\n",
        _WHICH,
    ),
)
