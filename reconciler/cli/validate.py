"""`reconciler validate`: judges files and folders as a service with an empty store would."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from reconciler.cli import exits, files, output
from reconciler.cli.files import API_VERSION, SourceText, Unreadable
from reconciler.git import file_selection
from reconciler.git.file_selection import FileGlobs
from reconciler.model import builtins, components, desired, documents, positions, principals
from reconciler.model.desired import Desired, DocumentRules
from reconciler.model.documents import Locations
from reconciler.model.errors import Refused
from reconciler.model.outcomes import REFUSED
from reconciler.model.secret_references import DEFAULT_PATTERNS, secrets_elsewhere
from reconciler.model.text import visible
from reconciler.model.values import Value
from reconciler.model.violations import Place, Violation
from reconciler.planner import decisions, resolving
from reconciler.planner.decisions import DocumentBatch
from reconciler.planner.stored import StoreSnapshot
from reconciler.store import engines

if TYPE_CHECKING:
    from reconciler.settings.repositories import Repository

FIELDS = ("path", "line", "column", "pointer", "message")
_LINE = re.compile(r"([0-9]+):([0-9]+): (?:(/.*?): )?(.*)")  # of a reason, after the path and a colon


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A violation or a warning with its place, by which both are sorted."""

    path: str
    line: int
    column: int
    pointer: str
    message: str
    warning: bool = False

    def __str__(self) -> str:
        warning, pointer = "warning: " if self.warning else "", f"{self.pointer}: " if self.pointer else ""
        return f"{self.path}:{self.line}:{self.column}: {warning}{pointer}{self.message}"


class JudgedFile(NamedTuple):
    """A file with its documents, each judged by itself. An unreadable file has one document that says so."""

    file: SourceText | Unreadable
    documents: tuple[Desired, ...]
    resources: int = 0
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
@click.option("--strict", is_flag=True, help="Treat warnings as violations.")
@click.option(
    "--config", type=click.Path(path_type=Path), help="A settings file: judge together what fills one project."
)
@click.pass_context
def validate(
    context: click.Context,
    *,
    paths: tuple[str, ...],
    form: str,
    strict: bool,
    config: Path | None,
) -> None:
    """Check files and folders without a server; - is standard input.

    Prints `path:line:column: message` for each violation, and ends with 3 if there is one. References may lead to any
    of the files and to built-in resources; other references are warnings. With --config, the files of each project are
    judged together, and files of no repository are left out.
    """
    texts = list(files.read_texts(paths))
    versions, refuse_unknown, patterns = frozenset({API_VERSION}), False, DEFAULT_PATTERNS
    projects = [ProjectFiles("default", frozenset(one.path for one in texts))]
    if config is not None:
        from reconciler.cli import entries  # noqa: PLC0415 - settings take a while to import

        settings = entries.load_settings(config)
        versions, refuse_unknown = frozenset(settings.api.api_versions), settings.resources.refuse_unknown
        patterns = settings.secrets.env
        projects = _projects(settings.repositories, [one.path for one in texts], config=config)
        held = frozenset[str]().union(*(project.paths for project in projects))
        if out := [one for one in texts if one.path not in held]:
            output.note(f"{output.counted(len(out), 'file')} left out, which no repository of {config} has")
        texts = [one for one in texts if one.path in held]
    found: defaultdict[Finding, list[str]] = defaultdict(list)
    with engines.open_scratch() as store:
        rules = DocumentRules(api_versions=versions, hmac_key=store.hmac_key)
        judged = [_judged(file, rules) for file in texts]
        for project in projects:
            own = [each for each in judged if each.file.path in project.paths]
            available = secrets_elsewhere(patterns, project.name)
            snapshot = StoreSnapshot(
                store.view, project.name, rules.hmac_key, available=available, refuse_unknown=refuse_unknown
            )
            for finding in set(_findings(own, snapshot, strict=strict)):
                found[finding].append(project.name)
    findings = sorted(_named(found, projects))
    violations = [finding for finding in findings if not finding.warning]
    warnings = [finding for finding in findings if finding.warning]
    resources, skipped = sum(each.resources for each in judged), sum(each.skipped for each in judged)
    if form == "json":
        lists: dict[str, Value] = {
            name: [{field: getattr(one, field) for field in FIELDS} for one in listed]
            for name, listed in (("violations", violations), ("warnings", warnings))
        }
        output.write(output.as_json({**lists, "files": len(judged), "resources": resources, "skipped": skipped}))
    else:
        output.write("".join(visible(str(finding)) + "\n" for finding in findings))
    counts = [output.counted(len(judged), "file"), output.counted(resources, "resource"), f"{skipped} skipped"]
    counts.append(output.counted(len(violations), "violation"))
    if warnings:
        counts.append(output.counted(len(warnings), "warning"))
    output.note(", ".join(counts))
    context.exit(exits.NOT_STORED if violations else exits.OK)


class ProjectFiles(NamedTuple):
    """The files that fill one project."""

    name: str
    paths: frozenset[str]


def _projects(repositories: Sequence["Repository"], paths: Sequence[str], *, config: Path) -> list[ProjectFiles]:
    """Return the files of each project, by the repositories in the settings that follow this checkout's remote."""
    from reconciler.cli import entries  # noqa: PLC0415 - as above
    from reconciler.git.checkouts import Checkout  # noqa: PLC0415 - only needed here

    root, remotes = Path.cwd(), list[str]()
    with suppress(Refused), Checkout.open(root) as checkout:  # files may lie outside of Git
        root, remotes = checkout.root or root, checkout.remotes()
    chosen = entries.choose_entries(repositories, config=config, remotes=remotes, branch=None)
    for note in chosen.notes:
        output.note(note)
    names = {path: os.path.relpath(os.path.realpath(path), os.path.realpath(root)) for path in paths}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for entry in chosen.entries:
        inside = {path: name for path, name in names.items() if f"{name}/".startswith(f"{entry.path}/".lstrip("/"))}
        ignore = files.ignore_rules(root, inside.values(), below=entry.path)
        globs = FileGlobs(include=entry.include, exclude=entry.exclude, root=entry.path)
        found[entry.project] |= {
            path for path, name in inside.items() if file_selection.is_considered(name, ignore, globs)
        }
    return [ProjectFiles(project, frozenset(held)) for project, held in found.items()]


def _named(found: Mapping[Finding, Sequence[str]], projects: Sequence[ProjectFiles]) -> Iterator[Finding]:
    """Add the projects to findings that hold in only some projects of a file."""
    for finding, told_in in found.items():
        if sum(finding.path in project.paths for project in projects) > len(told_in):
            yield replace(finding, message=f"{finding.message} (project {', '.join(told_in)})")
        else:
            yield finding


def _judged(file: SourceText | Unreadable, rules: DocumentRules) -> JudgedFile:
    if isinstance(file, Unreadable):
        return JudgedFile(file, (desired.unreadable(Place(file.path, 1, 1), file.message),))
    try:
        found = file.documents()
    except documents.DocumentError as problem:
        at = Place(file.path, problem.line, problem.column)
        return JudgedFile(file, (desired.unreadable(at, problem.message),))
    given = []
    for document in found:
        if files.is_resource(document.value, api_versions=rules.api_versions):
            one = desired.judge(document.value, api_versions=rules.api_versions)
            place = Place(file.path, document.line, document.column)
            reason = _reason(one.violations, file, document.index) if one.violations else None
            given.append(
                desired.of_judged(one, place=place, position=document.index, reason=reason, hmac_key=rules.hmac_key)
            )
    return JudgedFile(file, tuple(given), resources=len(given), skipped=len(found) - len(given))


def _findings(judged: Sequence[JudgedFile], snapshot: StoreSnapshot, *, strict: bool) -> Iterator[Finding]:
    """Yield the findings for the files of one project."""
    by_path = {each.file.path: each.file for each in judged}
    given = [one for each in judged for one in each.documents]
    known = builtins.built_in().keys() | {one.key for one in given if one.key is not None}
    missing = {key for one in given for key in one.references} - known

    def tell(document: Desired, found: Sequence[Violation]) -> str:
        assert document.place is not None
        file = by_path[document.place.path]
        assert isinstance(file, SourceText)
        return _reason(found, file, document.position)

    batch = DocumentBatch(
        given,
        snapshot.stored(one.key for one in given if one.key is not None),
        actor=principals.repository_actor("validate"),
        accept_invalid=False,
        tell=tell,
    )
    # The service may have the missing resources.
    [decided] = decisions.decide([batch], replace(snapshot, assumed=missing))
    for outcome in decided.outcomes:
        one = decided.document(outcome)
        reason = outcome.why() or ""
        if outcome.status in REFUSED:
            yield from (_finding(line, one) for line in reason.split("\n"))
        warnings = [*outcome.notes]
        if not missing.isdisjoint(one.references):
            lacking = [each for each in components.references(one.document()) if each.key in missing]
            told = [(each.pointer, resolving.which_reference(each)) for each in lacking]
            absent = [Violation(at, f"there is no {which} here and none is built in") for at, which in told]
            warnings += tell(one, absent).split("\n")
        for line in warnings:
            yield replace(_finding(line, one), warning=not strict)


def _reason(found: Sequence[Violation], file: SourceText, position: int) -> str:
    return desired.placed_reason(found, path=file.path, position=position, locations=_locations(file))


@lru_cache(maxsize=1)  # documents come file by file
def _locations(file: SourceText) -> Locations:
    """Return the positions in a file. They need a second parse."""
    return documents.locate(file.data, syntax=file.syntax, limits=positions.FILE_LIMITS)


def _finding(line: str, document: Desired) -> Finding:
    """Parse a line of a reason or a note. Without its own place, it gets that of its document."""
    place = document.place
    assert place is not None
    own = _LINE.fullmatch(line.removeprefix(f"{visible(place.path)}:"))
    if own is None:
        return Finding(place.path, place.line, place.column, "", line)
    return Finding(place.path, int(own[1]), int(own[2]), own[3] or "", own[4])
