"""The state of a repository that was never read."""

import os

from tests.daemons import until
from tests.following import Follow
from tests.repositories import Repository


def test_a_repository_that_hangs_was_never_read_until_it_answers(filled: Repository, follow: Follow) -> None:
    other = filled.path / ".git/refs/heads/other"
    os.mkfifo(other)  # git opens every ref, and whoever opens this one waits for ever
    followed = follow(filled, timeout="2s", interval="200ms")
    shown = followed.state()
    assert (shown["state"], shown["message"], shown["commit"]) == ("never-read", None, None)
    shown = followed.daemon.state_of(followed.name, "unreachable")
    told = "did not answer within 2 seconds; look whether its disk hangs, or raise `timeout`"
    assert (shown["message"], shown["commit"]) == (f"{filled.path} {told}", None)
    other.unlink()
    until(lambda: followed.versions() == {"a": 1, "b": 1}, "it is read")
    assert followed.daemon.state_of(followed.name, "ready")["message"] is None
