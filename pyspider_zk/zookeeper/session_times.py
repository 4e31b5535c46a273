"""Times of a session: how long it certainly exists, and when to act."""

from dataclasses import dataclass

TICK = 2.0  # seconds; a server ends sessions up to a tick late, 2 s by default


@dataclass(frozen=True)
class Times:
    """Lengths of time within a session, in seconds since the last answered request was sent.

    The server received that request when it was sent or later, so it cannot end the session before
    ``granted`` seconds have passed since.

    Attributes:
        granted: how long the server keeps a session without requests.
    """

    granted: float

    @property
    def tick(self) -> float:
        """How often to check the clock."""
        return self.granted / 20

    @property
    def beat(self) -> float:
        """When to send a request just to get a reply."""
        return self.granted / 6

    @property
    def connecting(self) -> float:
        """How long one server may take to accept a session, while that is at stake."""
        return max(1.0, self.granted / 6)

    @property
    def severing(self) -> float:
        """When the link must be considered dead, so that another server is tried."""
        return self.granted * 2 / 3

    @property
    def life(self) -> float:
        """When the session is over for us; the rest is for differing clocks and slow threads."""
        return self.granted * 0.9

    @property
    def end(self) -> float:
        """When the server has ended it, if it received nothing since."""
        return self.granted + TICK
