"""A fault."""

import pytest

from reconciler.git.faults import GitFault, State, explain


@pytest.mark.parametrize(
    ("stderr", "state", "message"),
    [
        (
            "fatal: mismatched algorithms: client sha1; server sha256\n",
            State.UNSUPPORTED_FORMAT,
            "/srv/a uses another object format than SHA-1, which is not supported; convert it to SHA-1",
        ),
        (
            "fatal: unknown repository extension found:\n\trefstorage\nfatal: Could not read from remote repository.\n",
            State.UNSUPPORTED_FORMAT,
            "/srv/a keeps its refs as reftable, which the installed git cannot read; migrate its refs to files",
        ),
        (
            "error: object 37ef: treeNotSorted: not sorted\nfatal: fsck error in packed object\n",
            State.UNSUPPORTED_FORMAT,
            "/srv/a holds an object that fails Git's integrity checks (object 37ef: treeNotSorted: not sorted);"
            " repair its history",
        ),
        (
            "fatal: '/srv/a' does not appear to be a git repository\n",
            State.UNREACHABLE,
            "/srv/a is not a Git repository; make one there, or correct `url`",
        ),
        (
            "fatal: write error: File too large\n",
            State.UNREACHABLE,
            "/srv/a sends more than the 512 bytes that one fetch may bring; shorten its history",
        ),
        (
            "fatal: bad object refs/reconciler/head\n",
            State.MIRROR_CORRUPT,
            "the mirror of /srv/a is damaged; it is built again at the next look",
        ),
        (
            "error: file /var/m.git/objects/pack/x.pack is far too short to be a packfile\n",
            State.MIRROR_CORRUPT,
            "the mirror of /srv/a is damaged; it is built again at the next look",
        ),
        (
            "fatal: not a git repository: /srv/gone/.git/worktrees/a\n",
            State.UNREACHABLE,
            "/srv/a names a Git repository that is gone; put that back, or correct `url`",
        ),
        (
            "fatal: something \x1b[31mnew\n",
            State.UNREACHABLE,
            "/srv/a cannot be read (something \\x1b[31mnew); mend that, and it is read",
        ),
        (
            "",
            State.UNREACHABLE,
            "/srv/a cannot be read (git gave no reason); mend that, and it is read",
        ),
    ],
)
def test_says_what_git_complained_of(stderr: str, state: State, message: str) -> None:
    fault = explain(stderr, source="/srv/a", mirror="/var/m.git", limit=512)
    assert (fault.state, fault.message) == (state, message)


def test_shows_no_more_than_one_bounded_line() -> None:
    message = explain(
        "fatal: " + "x" * 100_000 + "\nfatal: more\n", source="/srv/a", mirror="/var/m.git", limit=1
    ).message
    assert len(message) < 300
    assert "more" not in message


@pytest.mark.parametrize(
    ("state", "transient"),
    [(State.UNREACHABLE, True), (State.MIRROR_CORRUPT, True), (State.EMPTY, False), (State.BRANCH_MISSING, False)],
)
def test_says_whether_a_retry_may_help(state: State, transient: bool) -> None:
    assert GitFault(state, "").transient is transient
