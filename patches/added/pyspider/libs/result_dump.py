"""Results as files: lines of JSON, of URL and JSON, or CSV. Each is made while results are read.

Added by pyspider-zk in place of pyspider's, which ended at a result that is no UTF-8.
"""

import csv
import json
import re
from io import StringIO
from itertools import chain, islice
from tempfile import SpooledTemporaryFile

LOOKED_AT = 30
"""Results whose common fields are the columns of a CSV."""

KEPT_BYTES = 2**20
"""Of the ids of results that are asked for by number; more are kept in a temporary file."""

_FORMULA = re.compile(r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]\d+([.,]\d+)*([eE][+-]?\d+)?")

as_json = json.JSONEncoder(ensure_ascii=False).encode


def exported(resultdb, project, offset=0, limit=None):
    """Yield the results of a project, with as few of them in memory as can be.

    With `offset` or `limit` these are the latest, as of the first one; else all, in the order in
    which the database reads them best.
    """
    offset, limit = max(0, offset), max(0, limit or 0)
    if not offset and not limit:
        yield from resultdb.scan(project)
        return
    with SpooledTemporaryFile(KEPT_BYTES, "w+") as ids:
        for row in resultdb.select(project, ["taskid"], offset, limit):
            ids.write(json.dumps(row["taskid"]) + "\n")
        ids.seek(0)
        found = (resultdb.get(project, json.loads(line)) for line in ids)
        yield from filter(None, found)  # others were deleted meanwhile


def common_fields(results):
    """Return the names of the fields that all results have."""
    results = [each["result"] for each in results]
    found = [set(each) if isinstance(each, dict) else set() for each in results]
    return set.intersection(*found) if found else set()


def split(result, fields):
    """Return a result's values of some fields, and the rest of it."""
    if not isinstance(result, dict):
        return {}, result
    common = {name: value for name, value in result.items() if name in fields}
    return common, {name: value for name, value in result.items() if name not in fields}


def dump_as_json(results, valid=False):
    """Yield a line of JSON for each result; `valid` makes all of them one array."""
    between = ""
    if valid:
        yield "["
    for each in results:
        yield as_utf8(between + as_json(each) + "\n")
        between = ", " if valid else ""
    if valid:
        yield "]"


def dump_as_txt(results):
    """Yield a line for each result: its URL, a tab, and the result as JSON."""
    for each in results:
        yield as_utf8(f"{each['url'] or ''}\t{as_json(each['result'])}\n")


def dump_as_csv(results, for_spreadsheet=False):
    """Yield the lines of a CSV as in RFC 4180, the heading first; none without results.

    Args:
        results: their rows.
        for_spreadsheet: begin with a byte order mark, without which Excel takes it for Latin.
    """
    rows = iter(results)
    first = list(islice(rows, LOOKED_AT))
    fields = sorted(common_fields(first))
    if first:
        yield "\ufeff" * for_spreadsheet + csv_line("url", *fields, "...")
    for each in chain(first, rows):
        common, others = split(each["result"], fields)
        yield csv_line(each["url"], *(common.get(name, "") for name in fields), others)


def csv_line(*cells):
    """Return a line of a CSV."""
    line = StringIO()
    csv.writer(line).writerow(map(as_cell, cells))
    return as_utf8(line.getvalue())


def as_cell(value):
    """Return a value as text; behind an apostrophe a formula is a text (OWASP, CSV injection)."""
    text = value.decode("utf8") if isinstance(value, bytes) else value
    text = text if isinstance(text, str) else as_json(text)
    is_formula = _FORMULA.match(text) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_formula else text


def as_utf8(text):
    """Return a text that UTF-8 can write: half a surrogate pair is escaped as in JSON."""
    return text.encode("utf8", "backslashreplace").decode()
