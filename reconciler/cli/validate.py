"""`reconciler validate`: files and folders judged without a server, by the rules that a repository obeys.

A document is judged by itself in `model`. This module judges documents together, and with the built-in resources.
"""

import difflib
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from reconciler.cli import exits, files, output
from reconciler.cli.files import API_VERSION, SourceText, Unreadable
from reconciler.git import file_selection
from reconciler.git.file_selection import FileGlobs
from reconciler.model import builtins, component_types, components, documents, names, positions, resource, type_checks
from reconciler.model.component_types import ComponentType
from reconciler.model.components import Reference
from reconciler.model.errors import Refused
from reconciler.model.names import Key
from reconciler.model.text import visible
from reconciler.model.values import Document, Pointer, Value, pointer_text
from reconciler.model.violations import Place, Violation

if TYPE_CHECKING:
    from reconciler.settings.repositories import Repository

NEAR = 0.8  # of 1; the likeness from which on a name may be a slip of the pen
MOST_COMPARISONS = 50_000  # of names; up to 50 µs each, and a folder may hold any number
FIELDS = ("path", "line", "column", "pointer", "message")


class GivenResource(NamedTuple):
    """A resource of a file, judged by itself."""

    document: Document
    key: Key | None
    violations: tuple[Violation, ...]  # of the document by itself
    wrong: frozenset[Pointer]  # their places and all places above: other rules need the shape of the document

    @property
    def spec(self) -> Value:
        """The spec; None when there is none."""
        return self.document.value.get("spec") if isinstance(self.document.value, dict) else None

    @property
    def kind(self) -> str:
        """The kind, as far as it is text."""
        kind = self.document.value.get("kind") if isinstance(self.document.value, dict) else None
        return kind if isinstance(kind, str) else ""


class Told(NamedTuple):
    """The violations and the warnings of a document beside its own violations."""

    violations: tuple[Violation, ...]
    warnings: tuple[Violation, ...]


@dataclass(frozen=True, slots=True, order=True)
class Finding:
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


@dataclass(frozen=True, slots=True)
class JudgedFile:
    """A file: the finding that it cannot be read, or the resources in it."""

    file: SourceText | Unreadable
    unreadable: Finding | None = None
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
@click.option(
    "--config", type=click.Path(path_type=Path), help="A settings file: judge together what fills one project."
)
@click.pass_context
def validate(
    context: click.Context,
    *,
    paths: tuple[str, ...],
    form: str,
    aliases: tuple[str, ...],
    strict: bool,
    config: Path | None,
) -> None:
    """Check files and folders without a server; - is standard input.

    Prints `path:line:column: message` for each violation, and ends with 3 when there is one. What a name refers to
    may be in any of the files, or built in; a name that is nowhere is a warning. With --config, the files of each
    project are judged together, and files that no repository has are left out.
    """
    texts = list(files.read_texts(paths))
    versions, refuse_unknown = frozenset((API_VERSION, *aliases)), False
    projects: list[ProjectFiles] = [ProjectFiles("", frozenset(one.path for one in texts))]
    if config is not None:
        from reconciler.cli import entries  # noqa: PLC0415 - settings take a while to import

        settings = entries.load_settings(config)
        versions, refuse_unknown = versions | set(settings.api.api_versions), settings.resources.refuse_unknown
        projects = _projects(settings.repositories, [one.path for one in texts], config=config)
        held = frozenset[str]().union(*(project.paths for project in projects))
        if out := [one for one in texts if one.path not in held]:
            output.note(f"{output.counted(len(out), 'file')} left out, which no repository of {config} has")
        texts = [one for one in texts if one.path in held]
    judged = [_judged(file, api_versions=versions) for file in texts]
    found: defaultdict[Finding, list[str]] = defaultdict(list)
    for project in projects:
        own = [each for each in judged if each.file.path in project.paths]
        for finding in _findings(own, strict=strict, refuse_unknown=refuse_unknown):
            found[finding].append(project.name)
    findings = sorted(_named(found, projects))
    violations = [finding for finding in findings if not finding.warning]
    warnings = [finding for finding in findings if finding.warning]
    resources, skipped = sum(len(each.given) for each in judged), sum(each.skipped for each in judged)
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
    """Return which files fill which project, by the entries of the settings that this checkout is of."""
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


def _findings(judged: Sequence[JudgedFile], *, strict: bool, refuse_unknown: bool) -> set[Finding]:
    """Return what is wrong with the files of one project."""
    together = judge_together([given for each in judged for given in each.given], refuse_unknown=refuse_unknown)
    told = iter(together)
    found = set(_duplicates(judged))
    for each in judged:
        found.update(_of_file(each, told=[next(told) for _ in each.given], strict=strict))
    return found


def _named(found: Mapping[Finding, Sequence[str]], projects: Sequence[ProjectFiles]) -> Iterator[Finding]:
    """Name the projects of what is wrong in some of those that a file fills."""
    for finding, told_in in found.items():
        if sum(finding.path in project.paths for project in projects) > len(told_in):
            yield replace(finding, message=f"{finding.message} (project {', '.join(told_in)})")
        else:
            yield finding


def _judged(file: SourceText | Unreadable, *, api_versions: frozenset[str]) -> JudgedFile:
    if isinstance(file, Unreadable):
        return JudgedFile(file, Finding(file.path, 1, 1, "", file.message))
    try:
        found = file.documents()
    except documents.DocumentError as problem:
        return JudgedFile(file, Finding(file.path, problem.line, problem.column, "", problem.message))
    given = []
    for document in found:
        if files.is_resource(document.value, api_versions=api_versions):
            judged = resource.judge(document.value, api_versions=api_versions)
            pointers = {violation.pointer for violation in judged.violations}
            wrong = frozenset(pointer[:length] for pointer in pointers for length in range(len(pointer) + 1))
            given.append(GivenResource(document, judged.key, judged.violations, wrong))
    return JudgedFile(file, given=tuple(given), skipped=len(found) - len(given))


def _of_file(judged: JudgedFile, *, told: Sequence[Told], strict: bool) -> Iterator[Finding]:
    """Yield the findings of one file; `told` is of its resources. Positions take a second parse, so only if needed."""
    if judged.unreadable is not None:
        yield judged.unreadable
    file, own = judged.file, any(given.violations for given in judged.given)
    if isinstance(file, Unreadable) or not (own or any(any(each) for each in told)):
        return
    locations = documents.locate(file.data, syntax=file.syntax, limits=positions.FILE_LIMITS)
    for given, each in zip(judged.given, told, strict=True):
        violations = [(one, False) for one in (*given.violations, *each.violations)]
        for one, warning in (*violations, *((one, not strict) for one in each.warnings)):
            at = locations.of(given.document.index, one.pointer, at_key=one.at_key)
            yield Finding(file.path, at.line, at.column, pointer_text(one.pointer), one.message, warning)


def _duplicates(judged: Iterable[JudgedFile]) -> Iterator[Finding]:
    """Yield a violation for each place of a resource that has several; each names another."""
    places: defaultdict[Key, list[Place]] = defaultdict(list)
    for each in judged:
        for given in each.given:
            if given.key is not None:
                places[given.key].append(Place(each.file.path, given.document.line, given.document.column))
    for key, found in places.items():
        more = f" and {len(found) - 2} more" if len(found) > 2 else ""
        for place in found if len(found) > 1 else ():
            other = found[1] if place is found[0] else found[0]
            message = f"{key.kind} {key.name} is also in {other}{more}; keep one of them"
            yield Finding(place.path, place.line, place.column, "/metadata/name", message)


# Judging documents together.


def judge_together(resources: Sequence[GivenResource], *, refuse_unknown: bool = False) -> list[Told]:
    """Return the findings of each, in the same order."""
    reserved = [_reserved(each) for each in resources]
    times = Counter(each.key for each in resources)
    # The types that components are judged by. A given type comes before the built-in one, even if it cannot be used; a
    # reserved one never does. `broken` has the index of the first document of each type that cannot be used.
    usable = {key: document["spec"] for key, document in builtins.built_in().items() if key.kind in components.TYPES}
    broken: dict[Key, int] = {}
    extensions = {
        key: components.type_name_of(each["spec"])
        for key, each in builtins.built_in().items()
        if key.kind == "Extension"
    }
    for index, each in enumerate(resources):
        if each.key is None or each.key in builtins.RESERVED:
            continue
        is_good = not each.violations and times[each.key] == 1
        if each.key.kind == "Extension":  # None: nobody can say its type
            extensions[each.key] = components.type_name_of(each.spec) if is_good else None
        elif each.key.kind in components.TYPES and is_good:
            usable[each.key] = each.spec
        elif each.key.kind in components.TYPES:
            usable.pop(each.key, None)
            broken.setdefault(each.key, index)

    @cache
    def lookup(key: Key) -> ComponentType | None:
        if key not in usable:
            return None
        return component_types.compiled(key.name, component_types.read_definitions(usable[key]))

    found = []
    unresolved = _unresolved(resources)
    missed = _missed(resources, broken)
    for each, own, missing, missed_types in zip(resources, reserved, unresolved, missed, strict=True):
        wrong, unknown = _parameters(each, lookup, refuse_unknown=refuse_unknown)
        misplaced = [
            one for one in type_checks.misplaced(each.document.value, extensions.get) if one.pointer not in each.wrong
        ]
        violations = (*own, *wrong, *_secrets(each, lookup), *misplaced)
        found.append(Told(violations, (*missed_types, *unknown, *missing)))
    return found


def _reserved(given: GivenResource) -> tuple[Violation, ...]:
    if given.key not in builtins.RESERVED:
        return ()
    message = f"{given.key.kind} {given.key.name} is built in and cannot be replaced; choose another name"
    return (Violation(("metadata", "name"), message),)


def _parameters(
    given: GivenResource, lookup: Callable[[Key], ComponentType | None], *, refuse_unknown: bool
) -> tuple[list[Violation], list[Violation]]:
    """Return the violations of the parameters, and as warnings those that a type does not know."""
    broken: list[Violation] = []
    unknown: list[Violation] = []
    for component in components.find_components(given.kind, given.spec):
        component_type = lookup(component.type_key)
        if component_type is not None and component.at not in given.wrong:
            wrong, tolerated = type_checks.judged(component, component_type, refuse_unknown=refuse_unknown)
            broken += wrong
            unknown += tolerated
    return broken, unknown


def _secrets(given: GivenResource, lookup: Callable[[Key], ComponentType | None]) -> list[Violation]:
    """Return the broken references to secrets, as far as one can judge without the service that will resolve them.

    For a type that is not among the files, nobody knows the sensitive parameters and the meaning of the texts.
    """
    found = [each for each in components.find_components(given.kind, given.spec) if each.at not in given.wrong]
    types = components.component_types_of(found, lookup)
    mentions = [
        each
        for each in components.find_parameters(given.spec, types).mentions
        if each.parameter[:-1] not in types or types[each.parameter[:-1]] is not None
    ]
    broken = type_checks.broken_secret_references(mentions, found, types, None)
    return [one for one in broken if one.pointer not in given.wrong]


def _missed(resources: Sequence[GivenResource], broken: dict[Key, int]) -> list[tuple[Violation, ...]]:
    """Return for each a warning if it is a type that cannot be used and that a component has."""
    used = {component.type_key for each in resources for component in components.find_components(each.kind, each.spec)}
    found: list[tuple[Violation, ...]] = [()] * len(resources)
    for key, index in broken.items():
        if key in used:
            message = f"no parameters are judged by {key.kind} {key.name} until it is valid"
            found[index] = (Violation((), message),)
    return found


def _unresolved(resources: Sequence[GivenResource]) -> list[tuple[Violation, ...]]:
    """Return for each a warning for each name of no resource; a name that is not well formed has a violation."""
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
    """Return the near name for each missing one, as far as the comparisons last."""
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
    """Return the warning. It does not repeat the value of a parameter: its document may call it a secret."""
    name = "of this name" if reference.pointer[-1] == "value" else reference.name
    perhaps = f"; perhaps `{near}` is meant" if near else ""
    message = f"there is no {reference.kind} {name} here and none is built in{perhaps}"
    return Violation(reference.pointer, message)
