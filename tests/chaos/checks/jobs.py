"""Every batch that was accepted is carried out."""

from tests.chaos.history import History


def jobs_lost(history: History) -> list[str]:
    """Every batch that was accepted is done, and has started each of its projects."""
    started = {
        effect.project
        for effect in history.effects
        if (effect.kind, effect.task) == ("send", "on_start") and effect.outcome != "refused"
    }
    return [
        f"{batch} {project}"
        for batch, found in history.final["batches"].items()
        for project in found["projects"]
        if found["state"] != "done" or found["errors"] or project not in started
    ]
