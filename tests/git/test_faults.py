"""A fault."""

import pytest

from reconciler.git.faults import GitFault, RepositoryState


@pytest.mark.parametrize(
    ("state", "transient"),
    [
        (RepositoryState.UNREACHABLE, True),
        (RepositoryState.MIRROR_CORRUPT, True),
        (RepositoryState.EMPTY, False),
        (RepositoryState.BRANCH_MISSING, False),
    ],
)
def test_says_whether_a_retry_may_help(state: RepositoryState, transient: bool) -> None:
    assert GitFault(state, "").transient is transient
