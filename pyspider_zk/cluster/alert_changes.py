"""Changes of alerts: which were raised and which were cleared since the last look. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspider_zk.cluster.alerts import Alert

AlertKey = tuple[str, str, str]


@dataclass(frozen=True)
class AlertChanges:
    """What changed between two looks.

    Attributes:
        raised: the alerts that are new.
        cleared: those that are gone.
        current: all that are raised now, by what makes them the same alert.
    """

    raised: tuple[Alert, ...] = ()
    cleared: tuple[Alert, ...] = ()
    current: Mapping[AlertKey, Alert] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.raised or self.cleared)


def changes(
    before: Mapping[AlertKey, Alert], alerts: Iterable[Alert], *, is_whole: bool
) -> AlertChanges:
    """Return what changed.

    Args:
        before: the alerts of the last look.
        alerts: those of this one.
        is_whole: whether everything answered; if not, alerts may be missing, so none is cleared.
    """
    now = {_key(alert): alert for alert in alerts}
    kept = now if is_whole else {**before, **now}
    raised = tuple(alert for key, alert in now.items() if key not in before)
    cleared = tuple(alert for key, alert in before.items() if key not in kept)
    return AlertChanges(raised, cleared, kept)


def _key(alert: Alert) -> AlertKey:
    return alert.kind.value, alert.about, alert.severity.value
