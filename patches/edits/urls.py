"""URLs from tasks, sites and scripts: a bad one is a failed fetch that names it, no traceback."""

from edits.edit import Edit

_FETCHER = "pyspider/fetcher/tornado_fetcher.py"
_FAILED = "what a URL says is no fault of the fetcher's, so its log needs no traceback"

EDITS = (
    Edit(
        _FETCHER,
        "        except Exception as e:\n"
        "            logger.exception(e)\n"
        "            result = self.handle_error(",
        "        except Exception as e:\n"
        "            if not isinstance(e, fetchable.Unfetchable):\n"
        "                logger.exception(e)\n"
        "            result = self.handle_error(",
        _FAILED,
    ),
    Edit(
        _FETCHER,
        "            'error': utils.text(error),\n            'traceback'",
        "            'error': fetchable.told(error),\n            'traceback'",
        "an error of a fetch begins with its status, as Tornado's do",
    ),
    Edit(
        _FETCHER,
        "            'traceback': traceback.format_exc() if sys.exc_info()[0] else None,\n",
        "            'traceback': traceback.format_exc()\n"
        "            if sys.exc_info()[0] and not isinstance(error, fetchable.Unfetchable)\n"
        "            else None,\n",
        _FAILED,
    ),
    Edit(_FETCHER, "dataurl.decode(url)", "fetchable.decode_data_url(url)", _FAILED),
    Edit(
        _FETCHER,
        "        fetch['url'] = url\n        fetch['headers']",
        "        fetch['url'] = fetchable.sent_url(url)\n        fetch['headers']",
        _FAILED,
    ),
    Edit(
        _FETCHER,
        "        parsed = urlsplit(url)\n",
        "        url = fetchable.sent_url(url)\n        parsed = urlsplit(url)\n",
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
        "                     url, error, result['time'])\n",
        "                     fetchable.loggable(url), error, result['time'])\n",
        "half a surrogate in a URL cannot be written to a log",
    ),
)
