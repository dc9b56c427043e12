"""The facts of a commit that people read: author, subject and date.

The git program reads the commit, since strangers write it and the main process parses no object of theirs.
"""

import msgspec

from reconciler.git import history
from reconciler.model.clock import rfc3339

SUBJECT_CHARACTERS = 200
FORMAT = "%an%n%ae%n%ad%n%s"
READ = ("log", "--max-count=1", "--no-mailmap", "--encoding=UTF-8", "--date=unix", f"--format={FORMAT}")


class CommitFacts(msgspec.Struct, frozen=True):
    """The facts of a commit. `author` is `Name <address>`, as in the source of a resource, `date` that of the author.

    `subject` is the beginning of the message's first line, with its original characters.
    """

    commit: str
    author: str
    subject: str
    date: str  # RFC 3339, UTC


def parse(commit: str, output: bytes) -> CommitFacts:
    """Parse the output of `READ`."""
    name, address, seconds, subject = output.split(b"\n", 3)
    stated = int(seconds) if seconds.isdigit() else 0
    lines = subject.decode("utf-8", "replace").splitlines()
    return CommitFacts(
        commit=commit,
        author=history.signature(name, address),
        subject=lines[0][:SUBJECT_CHARACTERS].strip() if lines else "",
        date=rfc3339(history.stated_date(stated)),
    )
