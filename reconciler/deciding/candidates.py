"""From text to candidates: the resource documents of one file or one request, each judged by itself.

Nothing here knows what is stored or what else is wanted (`resolving`), or asks git: bytes come in.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from reconciler.documents import limits, reading
from reconciler.documents.values import Value
from reconciler.planning.models import Wanted
from reconciler.resources import drafts, judging, violations
from reconciler.resources.drafts import Draft
from reconciler.resources.keys import Key
from reconciler.resources.violations import Place


@dataclass(frozen=True, slots=True)
class Rules:
    """What documents are judged by, beside the schemas: accepted `apiVersion`s and this store's digest key."""

    api_versions: frozenset[str]
    hmac_key: bytes = field(repr=False)


class Candidate(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One resource document. `draft` is None exactly when `reason` says what is wrong with it by itself.

    `recent` is what recent rules have against it: they count unless the same is stored.
    """

    position: int
    key: Key | None
    draft: Draft | None
    reason: str | None
    place: Place | None = None
    recent: str | None = None

    def wanted(self, ordinal: int, *, reason: str | None = None, allowed: bool = True, lenient: bool = False) -> Wanted:
        """This document as the planner sees it; `reason` is one more thing that is wrong with it. `lenient`: recent
        rules do not count.
        """
        draft = self.draft
        return Wanted(
            ordinal=ordinal,
            key=self.key,
            digest=b"" if draft is None else draft.digest,
            reason="\n".join(filter(None, (self.reason, reason))) or None,
            place=self.place,
            deprecated=draft is not None and draft.deprecated,
            allowed=allowed,
            recent=None if lenient else self.recent,
        )


def of_file(data: bytes, *, path: str, rules: Rules) -> tuple[Candidate, ...] | None:
    """The candidates of a file's bytes, None when it holds no document at all.

    A file that cannot be read is one candidate of which nothing is known but what is wrong. `path` has a suffix that
    `reading.syntax_of` knows.
    """
    syntax = reading.syntax_of(path)
    assert syntax is not None, "only files with a known suffix are considered"
    try:
        documents = reading.read(data, syntax=syntax, limits=limits.FILE)
    except reading.DocumentError as error:
        return (unreadable(Place(path, error.line, error.column), error.message),)
    if not documents:
        return None
    judged = [
        (document, judging.judge(document.value, api_versions=rules.api_versions))
        for document in documents
        if judging.classify(document.value, api_versions=rules.api_versions) is judging.Classification.RESOURCE
    ]
    locations = None
    candidates = []
    for document, verdict in judged:
        place = Place(path, document.line, document.column)
        reason = None
        if verdict.violations:
            # Positions cost a second parse, so they are looked up only when something must be reported.
            if locations is None:
                locations = reading.locate(data, syntax=syntax, limits=limits.FILE)
            reason = file_reason(verdict.violations, path=path, index=document.index, locations=locations)
        candidates.append(_candidate(document.index, verdict, rules=rules, reason=reason, place=place))
    return tuple(candidates)


def unreadable(place: Place, message: str) -> Candidate:
    """What stands for a file that could not be read: it could hold any resource."""
    return Candidate(position=0, key=None, draft=None, reason=f"{place}: {message}", place=place)


def of_items(items: Iterable[Value], *, rules: Rules) -> list[Candidate]:
    """The candidates of a request's array: every item is judged, whatever its `apiVersion` and `kind` say.

    A client may send back what it was shown: `(sensitive)` stands for the stored value.
    """
    found = []
    for position, item in enumerate(items):
        verdict = judging.judge(item, api_versions=rules.api_versions, placeholders=True)
        reason = violations.lines(verdict.violations, lambda _: "") if verdict.violations else None
        found.append(_candidate(position, verdict, rules=rules, reason=reason, place=None))
    return found


def _candidate(
    position: int, verdict: judging.Judged, *, rules: Rules, reason: str | None, place: Place | None
) -> Candidate:
    resource = verdict.resource
    if resource is None:
        return Candidate(position=position, key=verdict.key, draft=None, reason=reason, place=place)
    draft = drafts.draft(resource, hmac_key=rules.hmac_key)
    return Candidate(position=position, key=verdict.key, draft=draft, reason=None, place=place, recent=reason)


def file_reason(found: Sequence[violations.Violation], *, path: str, index: int, locations: reading.Locations) -> str:
    """The violations of a document, the file's `index`-th, each with its place."""

    def place_of(violation: violations.Violation) -> str:
        position = locations.of(index, violation.pointer, at_key=violation.at_key)
        return str(Place(path, position.line, position.column))

    return violations.lines(found, place_of)
