"""`reconciler validate`: files and folders judged without a server, by the rules that a repository obeys.

Belongs here: the command, reading each file, one resource in two places. Does not: documents together
(`cross_checking`), the form of what is said (`findings`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import click

from reconciler.cli import cross_checking, exits, files, output, words
from reconciler.cli.cross_checking import GivenResource, ToldViolation
from reconciler.cli.findings import FindingPlaces, FoundViolation
from reconciler.model import documents as model_documents
from reconciler.model import positions, resource
from reconciler.model.names import Key
from reconciler.model.text import visible
from reconciler.model.values import Document, Value
from reconciler.model.violations import Place

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
        words.counted(totals["files"], "file"),
        words.counted(totals["resources"], "resource"),
        f"{totals['skipped']} skipped",
        words.counted(violations, "violation"),
        *([words.counted(warnings, "warning")] if warnings else []),
    ]
    return ", ".join(counts)


def _findings(judged: list[Judged], *, strict: bool) -> list[FoundViolation]:
    """Everything there is to say, each once, in order."""
    told = iter(cross_checking.judge_together([given for each in judged for given in each.given]))
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
    return cross_checking.given(document, resource.judge(document.value, api_versions=api_versions))
