"""What `reconciler doctor` finds: one sentence each, how bad it is, and what to do."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from reconciler.model.text import visible


class FindingStatus(StrEnum):
    """How bad something is."""

    OK = "ok"
    WARNING = "warning"  # it works, and may not for long
    ERROR = "error"  # it does not work


class DoctorFinding(NamedTuple):
    """`check` is what was looked at; `message` and `todo` together are a sentence, without its full stop."""

    check: str
    status: FindingStatus
    message: str
    todo: str = ""

    @property
    def sentence(self) -> str:
        """Both, on one line."""
        return visible(f"{self.message}; {self.todo}" if self.todo else self.message)


def ok(check: str, message: str) -> DoctorFinding:
    """All is well."""
    return DoctorFinding(check, FindingStatus.OK, message)


def warning(check: str, message: str, todo: str) -> DoctorFinding:
    """It works for now."""
    return DoctorFinding(check, FindingStatus.WARNING, message, todo)


def error(check: str, message: str, todo: str) -> DoctorFinding:
    """It does not work."""
    return DoctorFinding(check, FindingStatus.ERROR, message, todo)


def worst(found: Iterable[DoctorFinding]) -> FindingStatus:
    """The worst of them; ok when there are none."""
    return max((finding.status for finding in found), key=list(FindingStatus).index, default=FindingStatus.OK)
