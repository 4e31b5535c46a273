"""Outage of a service: logged once when it begins and once when it is over."""

import logging


class Outage:
    """Remembers whether a service is unavailable. Threads: any, one at a time.

    Args:
        logger: where it is logged.
        begins: the line for the beginning, with one ``%`` for the error.
        ends: the line for the end.
        is_fault: it is not foreseen: it is logged as an error, with its traceback.
    """

    def __init__(
        self, logger: logging.Logger, begins: str, ends: str, *, is_fault: bool = False
    ) -> None:
        self._logger = logger
        self._begins = begins
        self._ends = ends
        self._is_fault = is_fault
        self.lasts = False

    def failed(self, error: BaseException) -> None:
        """Record that the service did not answer."""
        if not self.lasts:
            level = logging.ERROR if self._is_fault else logging.WARNING
            trace = error if self._is_fault else None
            self._logger.log(level, self._begins, error, exc_info=trace, stacklevel=2)
        self.lasts = True

    def answered(self) -> None:
        """Record that the service answered."""
        if self.lasts:
            self._logger.info(self._ends, stacklevel=2)
        self.lasts = False
