"""A fault."""

import pytest

from reconciler.git.faults import GitFault, State


@pytest.mark.parametrize(
    ("state", "transient"),
    [(State.UNREACHABLE, True), (State.MIRROR_CORRUPT, True), (State.EMPTY, False), (State.BRANCH_MISSING, False)],
)
def test_says_whether_a_retry_may_help(state: State, transient: bool) -> None:
    assert GitFault(state, "").transient is transient
