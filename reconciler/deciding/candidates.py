"""From text to candidates: the resource documents of one file or one request, each judged by itself.

Nothing here knows what is stored or what else is wanted (`resolving`), or asks git: bytes come in.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from reconciler.model import documents as model_documents
from reconciler.model import positions, violations
from reconciler.model import resource as model_resource
from reconciler.model.names import Key
from reconciler.model.outcomes import WantedState
from reconciler.model.resource import Draft
from reconciler.model.values import Value
from reconciler.model.violations import Place


@dataclass(frozen=True, slots=True)
class CandidateRules:
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

    def wanted(
        self, ordinal: int, *, reason: str | None = None, allowed: bool = True, lenient: bool = False
    ) -> WantedState:
        """This document as the planner sees it; `reason` is one more thing that is wrong with it. `lenient`: recent
        rules do not count.
        """
        draft = self.draft
        return WantedState(
            ordinal=ordinal,
            key=self.key,
            digest=b"" if draft is None else draft.digest,
            reason="\n".join(filter(None, (self.reason, reason))) or None,
            place=self.place,
            deprecated=draft is not None and draft.deprecated,
            allowed=allowed,
            recent=None if lenient else self.recent,
        )


def candidates_of_file(data: bytes, *, path: str, rules: CandidateRules) -> tuple[Candidate, ...] | None:
    """The candidates of a file's bytes, None when it holds no document at all.

    A file that cannot be read is one candidate of which nothing is known but what is wrong. `path` has a suffix that
    `reading.syntax_of` knows.
    """
    syntax = model_documents.syntax_of(path)
    assert syntax is not None, "only files with a known suffix are considered"
    try:
        documents = model_documents.read(data, syntax=syntax, limits=positions.FILE_LIMITS)
    except model_documents.DocumentError as error:
        return (unreadable_candidate(Place(path, error.line, error.column), error.message),)
    if not documents:
        return None
    judged = [
        (document, model_resource.judge(document.value, api_versions=rules.api_versions))
        for document in documents
        if model_resource.classify(document.value, api_versions=rules.api_versions)
        is model_resource.Classification.RESOURCE
    ]
    locations = None
    candidates = []
    for document, verdict in judged:
        place = Place(path, document.line, document.column)
        reason = None
        if verdict.violations:
            # Positions cost a second parse, so they are looked up only when something must be reported.
            if locations is None:
                locations = model_documents.locate(data, syntax=syntax, limits=positions.FILE_LIMITS)
            reason = file_reason(verdict.violations, path=path, index=document.index, locations=locations)
        candidates.append(_candidate(document.index, verdict, rules=rules, reason=reason, place=place))
    return tuple(candidates)


def unreadable_candidate(place: Place, message: str) -> Candidate:
    """What stands for a file that could not be read: it could hold any resource."""
    return Candidate(position=0, key=None, draft=None, reason=f"{place}: {message}", place=place)


def candidates_of_items(items: Iterable[Value], *, rules: CandidateRules) -> list[Candidate]:
    """The candidates of a request's array: every item is judged, whatever its `apiVersion` and `kind` say.

    A client may send back what it was shown: `(sensitive)` stands for the stored value.
    """
    found = []
    for position, item in enumerate(items):
        verdict = model_resource.judge(item, api_versions=rules.api_versions, placeholders=True)
        reason = violations.lines(verdict.violations, lambda _: "") if verdict.violations else None
        found.append(_candidate(position, verdict, rules=rules, reason=reason, place=None))
    return found


def _candidate(
    position: int, verdict: model_resource.Judged, *, rules: CandidateRules, reason: str | None, place: Place | None
) -> Candidate:
    resource = verdict.resource
    if resource is None:
        return Candidate(position=position, key=verdict.key, draft=None, reason=reason, place=place)
    draft = model_resource.make_draft(resource, hmac_key=rules.hmac_key)
    return Candidate(position=position, key=verdict.key, draft=draft, reason=None, place=place, recent=reason)


def file_reason(
    found: Sequence[violations.Violation], *, path: str, index: int, locations: model_documents.Locations
) -> str:
    """The violations of a document, the file's `index`-th, each with its place."""

    def place_of(violation: violations.Violation) -> str:
        position = locations.of(index, violation.pointer, at_key=violation.at_key)
        return str(Place(path, position.line, position.column))

    return violations.lines(found, place_of)
