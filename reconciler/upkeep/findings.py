"""What `reconciler doctor` finds: one sentence each, how bad it is, and what to do."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from reconciler.escaping import visible


class Status(StrEnum):
    """How bad something is."""

    OK = "ok"
    WARNING = "warning"  # it works, and may not for long
    ERROR = "error"  # it does not work


class Finding(NamedTuple):
    """`check` is what was looked at; `message` and `todo` together are a sentence, without its full stop."""

    check: str
    status: Status
    message: str
    todo: str = ""

    @property
    def sentence(self) -> str:
        """Both, on one line."""
        return visible(f"{self.message}; {self.todo}" if self.todo else self.message)


def ok(check: str, message: str) -> Finding:
    """All is well."""
    return Finding(check, Status.OK, message)


def warning(check: str, message: str, todo: str) -> Finding:
    """It works for now."""
    return Finding(check, Status.WARNING, message, todo)


def error(check: str, message: str, todo: str) -> Finding:
    """It does not work."""
    return Finding(check, Status.ERROR, message, todo)


def worst(found: Iterable[Finding]) -> Status:
    """The worst of them; ok when there are none."""
    return max((finding.status for finding in found), key=list(Status).index, default=Status.OK)
