"""Documents of one file or one request, each judged by itself."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import msgspec

from reconciler.model import builtins, positions, rendering, violations
from reconciler.model import documents as model_documents
from reconciler.model import resource as model_resource
from reconciler.model.names import Key
from reconciler.model.outcomes import Change, Outcome, StoredState, WantedState
from reconciler.model.resource import Draft
from reconciler.model.values import Value
from reconciler.model.violations import Place
from reconciler.store.contract import HeadRow
from reconciler.store.planning_view import PlanningView

# From text to candidates: the resource documents of one file or one request, each judged by itself.
#
# Nothing here knows what is stored or what else is wanted (`resolving`), or asks git: bytes come in.


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
    `documents.syntax_of` knows.
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


# `metadata.id`: a new resource may bring its own, and no two resources of a project have the same.


def id_conflicts(
    found: Sequence[Candidate],
    stored: Mapping[Key, StoredState],
    view: PlanningView,
    *,
    project: str,
    leaving: Sequence[Key] = (),
) -> dict[int, str]:
    """By ordinal, why a new resource cannot have the id that it brings. An existing resource keeps its own anyway; of
    several new ones that bring the same, none gets it, since their order must not matter.

    The ids of what is `leaving` with the same change are free: a resource that is renamed keeps its id. The id of what
    is built in is for nothing but what stands in its place, so that what is shown of it can be edited and applied.
    """
    proposed = {
        ordinal: candidate.draft.proposed_id
        for ordinal, candidate in enumerate(found)
        if candidate.draft is not None and candidate.draft.proposed_id is not None and candidate.key not in stored
    }
    if not proposed:
        return {}
    freed = {identity.resource_id for identity in view.identities(project, leaving).values()}
    taken = view.taken_ids(project, sorted(set(proposed.values()))) - freed
    bringing = Counter(proposed.values())
    reasons = {}
    for ordinal, resource_id in proposed.items():
        is_built_in = builtins.built_in_ids().get(resource_id, found[ordinal].key) != found[ordinal].key
        if resource_id in taken or bringing[resource_id] > 1 or is_built_in:
            place = found[ordinal].place
            prefix = "" if place is None else f"{place}: "
            reasons[ordinal] = f"{prefix}/metadata/id: another resource of the project has this id; leave it out"
    return reasons


# What a repository may hold at all, by its setting `allow`.


def is_allowed_resource(key: Key, *, kinds: Collection[str], names: Collection[str]) -> bool:
    """Whether the kind and the name of a resource each match a pattern."""
    return _matches(key.kind, kinds) and _matches(key.name, names)


def _matches(text: str, patterns: Collection[str]) -> bool:
    return "*" in patterns or any(fnmatchcase(text, pattern) for pattern in patterns)


# What an admin stores over what a suspended repository owns: the repository keeps it, and its status says so.
#
# Whether that is allowed is decided in `planner`. When the repository is resumed, it stores its own again, or,
# where both are equal, takes the version over as its own.


def wanted_drift(outcomes: Iterable[Outcome], view: PlanningView) -> dict[Key, bytes | None]:
    """What the owners' heads want in place of what a request stores, by digest; None for an invalid document."""
    keys: dict[str, list[Key]] = {}
    for outcome in outcomes:
        stored = outcome.stored
        if outcome.change is Change.UPDATE and stored is not None and stored.owner is not None:
            keys.setdefault(stored.owner, []).append(stored.key)
    return {key: digest for owner in sorted(keys) for key, digest in view.wanted_digests(owner, keys[owner]).items()}


def kept_drift(head: HeadRow, outcome: Outcome, wanted: Mapping[Key, bytes | None]) -> HeadRow:
    """The head of what a request stores: whose it was it stays, at the place where it stood."""
    stored = outcome.stored
    if stored is None or stored.owner is None:
        return head
    status = head.status
    if wanted.get(stored.key) != head.digest:
        drift: dict[str, Value] = {"repository": stored.owner, "path": stored.path, "line": stored.line}
        status = rendering.with_drift(status, drift)
    return head._replace(owner=stored.owner, path=stored.path, line=stored.line, status=status, drifted=1)
