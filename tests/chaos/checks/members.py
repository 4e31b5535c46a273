"""Schedulers live until they are told to end, and then end in order."""

import signal

from tests.chaos.history import History


def fallen(history: History) -> list[str]:
    """No scheduler ends by itself, and one that is told to end says that all went well.

    One that never owned anything may have been told while it was starting: Python ends at once.
    """
    owners = {tenure.member for tenure in history.tenures}
    by_itself = [
        f"{remark['target']}, code {remark.get('code')}"
        for remark in history.remarks
        if remark["e"] == "fallen"
    ]
    told = [
        f"{hit.target}, code {hit.code}"
        for hit in history.hits
        if hit.code and not (hit.code == -signal.SIGTERM and hit.target not in owners)
    ]
    return by_itself + told


def overdue(history: History) -> list[str]:
    """A scheduler that is told to end does so within the time that is set for it."""
    return [remark["target"] for remark in history.remarks if remark["e"] == "overdue"]
