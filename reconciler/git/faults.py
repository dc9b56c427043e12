"""States of a repository, and the fault that has one. `remotes.errors` turns failed runs of git into faults."""

from enum import StrEnum

from reconciler.model.errors import ReconcilerError

REBUILT = "it is built again by itself"
COMMIT_DIGITS = 12  # of a commit's id in texts for people


class RepositoryState(StrEnum):
    """The state of a repository. In every state but READY, the last good commit stays and is served."""

    READY = "ready"
    NEVER_READ = "never-read"
    UNREACHABLE = "unreachable"
    UNAUTHORIZED = "unauthorized"
    BRANCH_MISSING = "branch-missing"
    PATH_MISSING = "path-missing"
    EMPTY = "empty"
    UNRELATED_ROOT = "unrelated-root"
    UNSIGNED = "unsigned"
    UNSUPPORTED_FORMAT = "unsupported-format"
    MIRROR_CORRUPT = "mirror-corrupt"
    PRUNE_HELD = "prune-held"
    SUSPENDED = "suspended"


class GitFault(ReconcilerError):
    """A repository cannot be read now; `state` says why in one word, `message` in one sentence.

    `retry_after` is the number of seconds that the remote asks to wait; None if it did not say. `lasting`: only a
    person can correct it, although its state may also pass by itself. `of_head`: it also lasts, until there is another
    head or larger limits.
    """

    def __init__(
        self,
        state: RepositoryState,
        message: str,
        *,
        retry_after: float | None = None,
        lasting: bool = False,
        of_head: bool = False,
    ) -> None:
        super().__init__(message)
        self.state = state
        self.retry_after = retry_after
        self.lasting = lasting or of_head
        self.of_head = of_head

    @property
    def transient(self) -> bool:
        """True if another attempt may succeed without a correction by a person, even before the next regular poll."""
        return not self.lasting and self.state in {RepositoryState.UNREACHABLE, RepositoryState.MIRROR_CORRUPT}


def short_commit(commit: str) -> str:
    """Return a commit's id in short form, for people."""
    return commit[:COMMIT_DIGITS]
