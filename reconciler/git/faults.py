"""States of a repository, and the fault that carries one.

Which fault a failed run of git means is found out where it is run.
"""

from enum import StrEnum

from reconciler.model.errors import ReconcilerError

REBUILT = "it is built again by itself"
COMMIT_DIGITS = 12  # of a commit's id, in what people read


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

    `retry_after`: the seconds that the remote asks to wait before it is asked again; None when it did not say.
    `lasting`: only a person can mend it, though its state does not tell. `of_head`: so it stays until another commit is
    followed, or more may be fetched.
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
        """Return whether the same look may succeed without a person's doing: worth a retry before the next poll."""
        return not self.lasting and self.state in {RepositoryState.UNREACHABLE, RepositoryState.MIRROR_CORRUPT}


def short_commit(commit: str) -> str:
    """A commit's id as people read it."""
    return commit[:COMMIT_DIGITS]
