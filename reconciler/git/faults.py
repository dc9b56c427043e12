"""What can be wrong with a repository: the states, the fault that carries one, and what the git program's words mean.

Running git and reading objects are elsewhere; nothing here does I/O.
"""

import re
from enum import StrEnum

from reconciler.errors import ReconcilerError
from reconciler.escaping import visible


class State(StrEnum):
    """What a repository is in. In every state but READY, what was last good stays and is served."""

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
    """A repository cannot be read now; `state` says why in one word, `message` in one sentence."""

    def __init__(self, state: State, message: str) -> None:
        super().__init__(message)
        self.state = state

    @property
    def transient(self) -> bool:
        """Whether the same look may succeed without a person's doing: worth a retry before the next poll."""
        return self.state in {State.UNREACHABLE, State.MIRROR_CORRUPT}


REBUILT = "it is built again at the next look"
COMMIT_DIGITS = 12  # of a commit's id, in what people read


def short(commit: str) -> str:
    """A commit's id as people read it."""
    return commit[:COMMIT_DIGITS]


# The first row whose text occurs in what git wrote decides. Git runs with LC_ALL=C, so its words are these.
SAYINGS: tuple[tuple[str, State, str], ...] = (
    ("bad object refs/reconciler/", State.MIRROR_CORRUPT, "the mirror of {source} is damaged; {rebuilt}"),
    ("refs/reconciler/", State.MIRROR_CORRUPT, "the mirror of {source} has a damaged ref; {rebuilt}"),
    (
        "mismatched algorithms",
        State.UNSUPPORTED_FORMAT,
        "{source} uses another object format than SHA-1, which is not supported; convert it to SHA-1",
    ),
    (
        "refstorage",
        State.UNSUPPORTED_FORMAT,
        "{source} keeps its refs as reftable, which the installed git cannot read; migrate its refs to files",
    ),
    (
        "unknown repository extension",
        State.UNSUPPORTED_FORMAT,
        "{source} uses a repository extension that the installed git does not know; upgrade git",
    ),
    (
        "Expected git repo version",
        State.UNSUPPORTED_FORMAT,
        "{source} has a repository format that the installed git does not know; upgrade git",
    ),
    (
        "fsck error",
        State.UNSUPPORTED_FORMAT,
        "{source} holds an object that fails Git's integrity checks ({detail}); repair its history",
    ),
    (
        "couldn't find remote ref",
        State.BRANCH_MISSING,
        "the branch disappeared from {source} while it was fetched; put it back, or name another with `branch`",
    ),
    (
        "detected dubious ownership",
        State.UNREACHABLE,
        "{source} belongs to another user; configure the repository's exact path, without links",
    ),
    (
        "does not appear to be a git repository",
        State.UNREACHABLE,
        "{source} is not a Git repository; make one there, or correct `url`",
    ),
    (
        "invalid gitfile format",
        State.UNREACHABLE,
        "{source} is not a Git repository; make one there, or correct `url`",
    ),
    (
        "not a git repository: /",
        State.UNREACHABLE,
        "{source} names a Git repository that is gone; put that back, or correct `url`",
    ),
    (
        "File too large",
        State.UNREACHABLE,
        "{source} sends more than the {limit} bytes that one fetch may bring; shorten its history",
    ),
    (
        "No space left on device",
        State.UNREACHABLE,
        "there is no disk space left for the mirror of {source}; make room where `stateDir` is",
    ),
)

DETAIL = re.compile(r"^(?:remote: )*(?:fatal|error): (.*)$", re.MULTILINE)
DETAIL_CHARACTERS = 200


def explain(stderr: str, *, source: str, mirror: str, limit: int) -> GitFault:
    """The fault that git's standard error describes; `limit` is the most bytes that the fetch might bring."""
    detail = _detail(stderr)
    for saying, state, sentence in SAYINGS:
        if saying in stderr:
            return GitFault(state, sentence.format(source=source, limit=limit, detail=detail, rebuilt=REBUILT))
    if mirror in stderr:  # whatever it is, it is about our own files
        return GitFault(State.MIRROR_CORRUPT, f"the mirror of {source} is damaged; {REBUILT}")
    return GitFault(State.UNREACHABLE, f"{source} cannot be read ({detail}); mend that, and it is read")


def _detail(stderr: str) -> str:
    """Git's first complaint, fit to be shown: one bounded line."""
    found = DETAIL.search(stderr)
    text = found.group(1) if found else "git gave no reason"
    return visible(text.strip()[:DETAIL_CHARACTERS])
