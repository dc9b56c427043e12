"""`reconciler validate`."""

import difflib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import NamedTuple

import click

from reconciler.cli import exits, files, output
from reconciler.model import builtins, component_types, components, names, positions, resource, type_checks
from reconciler.model import documents as model_documents
from reconciler.model.component_types import ComponentType
from reconciler.model.components import Reference
from reconciler.model.names import Key
from reconciler.model.positions import Locations
from reconciler.model.resource import Judged as ResourceJudged
from reconciler.model.text import visible
from reconciler.model.values import Document, Pointer, Value, pointer_text
from reconciler.model.violations import Place, Violation

# Judging resources together, and with what is built in: what a document cannot say of itself alone.

NEAR = 0.8  # of 1; the likeness from which on a name may be a slip of the pen
MOST_COMPARISONS = 50_000  # of names; up to 50 µs each, and a folder may hold any number


class GivenResource(NamedTuple):
    """A resource as a document has it."""

    document: Document
    key: Key | None
    violations: tuple[Violation, ...]  # of the document by itself
    wrong: frozenset[Pointer]  # where they are, and all that stands above: rules go by the shape of what is not here

    @property
    def spec(self) -> Value:
        """What its kind says of it; None when there is none."""
        return self.document.value.get("spec") if isinstance(self.document.value, dict) else None

    @property
    def kind(self) -> str:
        """Its kind, as far as it is text."""
        kind = self.document.value.get("kind") if isinstance(self.document.value, dict) else None
        return kind if isinstance(kind, str) else ""


class ToldViolation(NamedTuple):
    """What is said of one document, beside its own violations."""

    violations: tuple[Violation, ...]
    warnings: tuple[Violation, ...]


@dataclass(frozen=True, slots=True)
class _Types:
    """The types that components are judged by, and those that would be if nothing were wrong with them."""

    usable: dict[Key, Value]  # their specs
    broken: dict[Key, int]  # where the first of each stands among all that is given


def given(document: Document, judged: ResourceJudged) -> GivenResource:
    """A document that was judged by itself."""
    pointers = {violation.pointer for violation in judged.violations}
    wrong = frozenset(pointer[:length] for pointer in pointers for length in range(len(pointer) + 1))
    return GivenResource(document, judged.key, judged.violations, wrong)


def judge_together(resources: Sequence[GivenResource]) -> list[ToldViolation]:
    """What is to be said of each, in the same order."""
    alone = [tuple(_reserved(each)) for each in resources]
    types = _types(resources, alone)
    lookup = _lookup(types.usable)
    extensions = _extensions(resources)
    fits = [_parameters(each, lookup) for each in resources]
    violations = [
        (*found, *broken, *_secrets(each, lookup), *_storages(each, extensions))
        for each, found, (broken, _) in zip(resources, alone, fits, strict=True)
    ]
    warnings = zip(_missed(resources, types.broken), fits, _unresolved(resources), strict=True)
    return [
        ToldViolation(found, (*missed, *unknown, *missing))
        for found, (missed, (_, unknown), missing) in zip(violations, warnings, strict=True)
    ]


def _reserved(given: GivenResource) -> Iterator[Violation]:
    if given.key in builtins.RESERVED:
        message = f"{given.key.kind} {given.key.name} is built in and cannot be replaced; choose another name"
        yield Violation(("metadata", "name"), message)


def _types(resources: Sequence[GivenResource], alone: Sequence[tuple[Violation, ...]]) -> _Types:
    """A given type comes before the one that is built in, even if it cannot be used; a reserved one never does."""
    usable = {key: document["spec"] for key, document in builtins.built_in().items() if key.kind in components.TYPES}
    broken: dict[Key, int] = {}
    times = Counter(each.key for each in resources)
    for index, (each, found) in enumerate(zip(resources, alone, strict=True)):
        if each.key is None or each.key.kind not in components.TYPES or each.key in builtins.RESERVED:
            continue
        if each.violations or found or times[each.key] > 1:
            usable.pop(each.key, None)
            broken.setdefault(each.key, index)
        else:
            usable[each.key] = each.spec
    return _Types(usable, broken)


def _lookup(usable: dict[Key, Value]) -> Callable[[Key], ComponentType | None]:
    """The type of a key, compiled when somebody first asks for it."""

    @cache
    def lookup(key: Key) -> ComponentType | None:
        return (
            component_types.compiled(key.name, component_types.read_definitions(usable[key])) if key in usable else None
        )

    return lookup


def _parameters(
    given: GivenResource, lookup: Callable[[Key], ComponentType | None]
) -> tuple[list[Violation], list[Violation]]:
    """What is wrong with the parameters, and what is a warning alone: one that a type does not know."""
    broken: list[Violation] = []
    unknown: list[Violation] = []
    for component in components.find_components(given.kind, given.spec):
        component_type = lookup(component.type_key)
        if component_type is not None and component.at not in given.wrong:
            wrong, tolerated = type_checks.judged(component, component_type, refuse_unknown=False)
            broken += wrong
            unknown += tolerated
    return broken, unknown


def _secrets(given: GivenResource, lookup: Callable[[Key], ComponentType | None]) -> Iterator[Violation]:
    """References to secrets, as far as one can judge without the service that will resolve them.

    Where the type is not among the files, nobody knows which parameters are sensitive, nor what its texts mean.
    """
    found = [each for each in components.find_components(given.kind, given.spec) if each.at not in given.wrong]
    types = components.component_types_of(found, lookup)
    mentions = [
        each
        for each in components.find_parameters(given.spec, types).mentions
        if each.parameter[:-1] not in types or types[each.parameter[:-1]] is not None
    ]
    for violation in type_checks.broken_secret_references(mentions, found, types, None):
        if violation.pointer not in given.wrong:
            yield violation


def _extensions(resources: Sequence[GivenResource]) -> dict[Key, str | None]:
    """The type of each Extension; None when nobody can say, since it has something wrong with it or stands twice."""
    found = {
        key: components.type_name_of(each["spec"])
        for key, each in builtins.built_in().items()
        if key.kind == "Extension"
    }
    times = Counter(each.key for each in resources)
    for each in resources:
        if each.key is not None and each.key.kind == "Extension" and each.key not in builtins.RESERVED:
            certain = not each.violations and times[each.key] == 1
            found[each.key] = components.type_name_of(each.spec) if certain else None
    return found


def _storages(given: GivenResource, extensions: dict[Key, str | None]) -> Iterator[Violation]:
    for violation in type_checks.misplaced(given.document.value, extensions.get):
        if violation.pointer not in given.wrong:
            yield violation


def _missed(resources: Sequence[GivenResource], broken: dict[Key, int]) -> list[tuple[Violation, ...]]:
    """For each, a warning if it is a type that cannot be used, although somebody wants to."""
    used = {component.type_key for each in resources for component in components.find_components(each.kind, each.spec)}
    found: list[tuple[Violation, ...]] = [()] * len(resources)
    for key, index in broken.items():
        if key in used:
            message = f"no parameters are judged by {key.kind} {key.name} until it is valid"
            found[index] = (Violation((), message),)
    return found


def _unresolved(resources: Sequence[GivenResource]) -> list[tuple[Violation, ...]]:
    """For each, a warning for each name that no resource bears; a name that is not well formed is told already."""
    known = builtins.built_in().keys() | {each.key for each in resources if each.key is not None}
    missing = [
        [
            reference
            for reference in components.references(each.document.value)
            if reference.key not in known and reference.pointer not in each.wrong
        ]
        for each in resources
    ]
    near = _near((reference.key for found in missing for reference in found), known)
    return [tuple(_missing(reference, near.get(reference.key)) for reference in found) for found in missing]


def _near(missing: Iterable[Key], known: Iterable[Key]) -> dict[Key, str]:
    """The name that may be meant for each missing one, as far as one is near and the comparisons last."""
    candidates: defaultdict[str, list[str]] = defaultdict(list)
    for key in sorted(known):
        candidates[key.kind].append(key.name)
    found: dict[Key, str] = {}
    left = MOST_COMPARISONS
    for key in dict.fromkeys(key for key in missing if names.wrong_name(key.name) is None):
        left -= len(candidates[key.kind])
        if left < 0:
            break
        close = difflib.get_close_matches(key.name, candidates[key.kind], n=1, cutoff=NEAR)
        found.update((key, name) for name in close)
    return found


def _missing(reference: Reference, near: str | None) -> Violation:
    """The value of a parameter is not repeated: its document may call it a secret."""
    name = "of this name" if reference.pointer[-1] == "value" else reference.name
    perhaps = f"; perhaps `{near}` is meant" if near else ""
    message = f"there is no {reference.kind} {name} here and none is built in{perhaps}"
    return Violation(reference.pointer, message)


# What `validate` says, each at its place: a violation or a warning, as a line and as JSON.

FIELDS = ("path", "line", "column", "pointer", "message")


@dataclass(frozen=True, slots=True, order=True)
class FoundViolation:
    """A violation, or a warning, at its place. They sort by place, one like the other."""

    path: str
    line: int
    column: int
    pointer: str
    message: str
    warning: bool = False

    def __str__(self) -> str:
        warning, pointer = "warning: " if self.warning else "", f"{self.pointer}: " if self.pointer else ""
        return f"{self.path}:{self.line}:{self.column}: {warning}{pointer}{self.message}"

    def as_value(self) -> dict[str, Value]:
        """As JSON has it, in a list of violations or in one of warnings."""
        return {name: getattr(self, name) for name in FIELDS}


@dataclass(frozen=True, slots=True)
class FindingPlaces:
    """Where things stand in one file."""

    path: str
    locations: Locations

    def of(self, violations: Iterable[Violation], *, index: int, warning: bool = False) -> Iterator[FoundViolation]:
        """What is said of the document of this index, at its places."""
        for violation in violations:
            at = self.locations.of(index, violation.pointer, at_key=violation.at_key)
            pointer = pointer_text(violation.pointer)
            yield FoundViolation(self.path, at.line, at.column, pointer, violation.message, warning)


# `reconciler validate`: files and folders judged without a server, by the rules that a repository obeys.

API_VERSION = "service/v1"


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of one file: the finding that it cannot be read, or the resources in it."""

    file: files.SourceText | files.Unreadable
    unreadable: FoundViolation | None = None
    given: tuple[GivenResource, ...] = ()
    skipped: int = 0


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(exists=True, allow_dash=True))
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(("text", "json")),
    default="text",
    help="How to print violations (text).",
)
@click.option(
    "--api-version", "aliases", multiple=True, help="Accept this apiVersion too; may be given more than once."
)
@click.option("--strict", is_flag=True, help="Count every warning as a violation.")
@click.pass_context
def validate(
    context: click.Context, *, paths: tuple[str, ...], form: str, aliases: tuple[str, ...], strict: bool
) -> None:
    """Check files and folders without a server; - is standard input.

    Prints `path:line:column: message` for each violation, and ends with 3 when there is one. What a name refers to
    may be in any of the files, or built in; a name that is nowhere is a warning.
    """
    versions = frozenset((API_VERSION, *aliases))
    judged = [_file(file, api_versions=versions) for file in files.read_texts(paths)]
    findings = _findings(judged, strict=strict)
    violations = [finding for finding in findings if not finding.warning]
    warnings = [finding for finding in findings if finding.warning]
    totals = _totals(judged)
    if form == "json":
        output.write(output.as_json({"violations": _values(violations), "warnings": _values(warnings), **totals}))
    else:
        output.write("".join(visible(str(finding)) + "\n" for finding in findings))
    output.note(_summary(totals, violations=len(violations), warnings=len(warnings)))
    context.exit(exits.NOT_STORED if violations else exits.OK)


def _values(findings: list[FoundViolation]) -> list[Value]:
    return [finding.as_value() for finding in findings]


def _totals(judged: list[Judged]) -> dict[str, int]:
    return {
        "files": len(judged),
        "resources": sum(len(each.given) for each in judged),
        "skipped": sum(each.skipped for each in judged),
    }


def _summary(totals: dict[str, int], *, violations: int, warnings: int) -> str:
    counts = [
        output.counted(totals["files"], "file"),
        output.counted(totals["resources"], "resource"),
        f"{totals['skipped']} skipped",
        output.counted(violations, "violation"),
        *([output.counted(warnings, "warning")] if warnings else []),
    ]
    return ", ".join(counts)


def _findings(judged: list[Judged], *, strict: bool) -> list[FoundViolation]:
    """Everything there is to say, each once, in order."""
    told = iter(judge_together([given for each in judged for given in each.given]))
    found = {
        finding
        for each in judged
        for finding in _of_file(each, told=list(islice(told, len(each.given))), strict=strict)
    }
    return sorted(found.union(duplicates(pair for each in judged for pair in _places(each))))


def _of_file(judged: Judged, *, told: Sequence[ToldViolation], strict: bool) -> Iterator[FoundViolation]:
    """What is said of one file; `told` is of its resources. Positions take a second parse, so only if needed."""
    if judged.unreadable is not None:
        yield judged.unreadable
    own = any(given.violations for given in judged.given)
    if isinstance(judged.file, files.Unreadable) or not (own or any(any(each) for each in told)):
        return
    locations = model_documents.locate(judged.file.data, syntax=judged.file.syntax, limits=positions.FILE_LIMITS)
    places = FindingPlaces(judged.file.path, locations)
    for given, each in zip(judged.given, told, strict=True):
        yield from places.of((*given.violations, *each.violations), index=given.document.index)
        yield from places.of(each.warnings, index=given.document.index, warning=not strict)


def _places(judged: Judged) -> Iterator[tuple[Key, Place]]:
    for given in judged.given:
        if given.key is not None:
            yield given.key, Place(judged.file.path, given.document.line, given.document.column)


def duplicates(keys: Iterable[tuple[Key, Place]]) -> list[FoundViolation]:
    """A violation for each place of a resource that has several; each names another."""
    places: defaultdict[Key, list[Place]] = defaultdict(list)
    for key, place in keys:
        places[key].append(place)
    return [
        _duplicate(key, place, other=found[1] if place is found[0] else found[0], more=len(found) - 2)
        for key, found in places.items()
        if len(found) > 1
        for place in found
    ]


def _duplicate(key: Key, place: Place, *, other: Place, more: int) -> FoundViolation:
    others = f"{other} and {more} more" if more else f"{other}"
    message = f"{key.kind} {key.name} is also in {others}; keep one of them"
    return FoundViolation(place.path, place.line, place.column, "/metadata/name", message)


def _file(file: files.SourceText | files.Unreadable, *, api_versions: frozenset[str]) -> Judged:
    if isinstance(file, files.Unreadable):
        return Judged(file, FoundViolation(file.path, 1, 1, "", file.message))
    try:
        documents = file.documents()
    except model_documents.DocumentError as problem:
        return Judged(file, FoundViolation(file.path, problem.line, problem.column, "", problem.message))
    given = tuple(_given(document, api_versions) for document in documents if _is_resource(document, api_versions))
    return Judged(file, given=given, skipped=len(documents) - len(given))


def _is_resource(document: Document, api_versions: frozenset[str]) -> bool:
    return resource.classify(document.value, api_versions=api_versions) is resource.Classification.RESOURCE


def _given(document: Document, api_versions: frozenset[str]) -> GivenResource:
    return given(document, resource.judge(document.value, api_versions=api_versions))
