"""Outage of a service: logged once when it begins and once when it is over."""

import logging


class Outage:
    """Remembers whether a service is unavailable. Threads: any, one at a time.

    Args:
        logger: where it is logged.
        begins: the line for the beginning, with one ``%`` for the error.
        ends: the line for the end.
    """

    def __init__(self, logger: logging.Logger, begins: str, ends: str) -> None:
        self._logger = logger
        self._begins = begins
        self._ends = ends
        self.lasts = False

    def failed(self, error: BaseException) -> None:
        """Record that the service did not answer."""
        if not self.lasts:
            self._logger.warning(self._begins, error, stacklevel=2)
        self.lasts = True

    def answered(self) -> None:
        """Record that the service answered."""
        if self.lasts:
            self._logger.info(self._ends, stacklevel=2)
        self.lasts = False
