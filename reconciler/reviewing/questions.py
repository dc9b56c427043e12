"""What is asked of the service about a proposal, and why it may get no plan.

Belongs here: the question as it came, and the sentences of refusals. Does not: answering it (`asking`).
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from reconciler.model.errors import Refused, Transient
from reconciler.model.plan import FORMAT
from reconciler.reviewing.keeping import PlanQuestion

FILES_TOLD = 100  # of those that conflict


class UnknownProposal(Refused):
    """No repository of this name is watched."""


class Unmergeable(Refused):
    """The two do not merge; each sentence tells one reason, a file where there is one."""

    def __init__(self, *sentences: str) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = tuple(self.message.split("\n"))


class TookTooLong(Transient):
    """There is no plan in time; the same question may pass later."""


class PlanRequest(NamedTuple):
    """A question as it came: refs or commits in words, `base` None for what the repository follows."""

    repository: str
    head: str
    base: str | None


def question_digest(question: PlanQuestion, *, revision: int) -> str:
    """What tells a plan from every other: another base, head or state of the store has another one."""
    facts = (FORMAT, question.watched.name, question.base.commit, question.head.commit, revision)
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()


def unmergeable_fault(question: PlanQuestion, conflicts: Sequence[str]) -> Unmergeable:
    """Why the two do not merge: the files that conflict, or, without any, that they have nothing in common."""
    base, head = question.base.ref, question.head.ref
    if not conflicts:
        return Unmergeable(f"{head} and {base} have no history in common, so that they do not merge.")
    told = [
        f"{_one_line(path)}: conflicts between {base} and {head}; resolve it in {head}"
        for path in conflicts[:FILES_TOLD]
    ]
    left = len(conflicts) - len(told)
    return Unmergeable(*told, *([f"There are conflicts in more files than these: {left}."] if left else []))


def _one_line(path: str) -> str:
    return path.replace("\n", "\\n")
