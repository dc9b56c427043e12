"""Expectations of the repository of two resources that each case follows."""

from tests.daemons import Followed, destination

OFTEN = "200ms"  # between two looks, so that nothing waits for a poll


def stays(followed: Followed, state: str, message: str) -> None:
    """The repository comes into this state and says why; nothing is deleted, and everything is served as it was."""
    shown = followed.daemon.state_of(followed.name, state)
    assert shown["message"] == message
    assert followed.versions() == {"a": 1, "b": 1}
    assert not any("deleted" in run["counts"] for run in followed.daemon.runs(followed.name))


def recovers(followed: Followed) -> None:
    """It is ready without anybody's doing, and the next commit is applied: one edited, one deleted."""
    assert followed.daemon.state_of(followed.name, "ready")["message"] is None
    before = followed.versions()
    followed.write("teams/a.yaml", destination("a", "edited afterwards"))
    followed.source.remove("b.yaml")
    assert followed.commit()["counts"] == {"configured": 1, "deleted": 1}
    assert followed.versions() == {"a": before["a"] + 1}
