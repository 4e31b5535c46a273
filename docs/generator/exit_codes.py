"""Exit codes of the commands, from the tree of errors."""

from collections.abc import Iterator

from pyspider_zk.errors import ClusterError


def lines() -> Iterator[str]:
    """Yield a table in Markdown: each code, and the errors that choose it."""
    yield "| code | meaning |"
    yield "|---|---|"
    for error in sorted(_choosing(ClusterError), key=lambda each: each.exit_code):
        meaning = (error.__doc__ or "").partition("\n")[0].rstrip(".")
        yield f"| {error.exit_code} | {meaning} |"


def _choosing(error: type[ClusterError]) -> Iterator[type[ClusterError]]:
    """Yield the errors below this one that have a code of their own."""
    for each in error.__subclasses__():
        if "exit_code" in vars(each):
            yield each
        yield from _choosing(each)
