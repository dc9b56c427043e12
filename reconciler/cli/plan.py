"""`reconciler plan`: shows what merging a branch would do.

The plan comes from a server, which plans against its store, or is made here from a checkout (`review.static`). The
renderings are in `review`.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from reconciler.cli import fields, output
from reconciler.cli.options import color_option, connected
from reconciler.model import forges, secret_references
from reconciler.model.error_codes import ErrorCode
from reconciler.model.errors import ReconcilerError, Refused
from reconciler.model.plan import Plan, PlanEntry, PlanTip
from reconciler.model.text import visible
from reconciler.model.values import Value
from reconciler.review import plan as review_plan

if TYPE_CHECKING:
    from reconciler.cli.client import Client
    from reconciler.cli.entries import ChosenEntries
    from reconciler.git.checkouts import Checkout
    from reconciler.git.merging import Merged
    from reconciler.review.annotations import NoPlan
    from reconciler.review.static import EntrySettings
    from reconciler.settings.models import Settings
    from reconciler.settings.repositories import Repository

# Imports are local: each plan needs only some of the client, git, the settings and the renderings.

FORMS = ("text", "markdown", "json", "github", "html")
MARKER = "default"
DETAILED = "--detailed-exitcode"
KNOWN = ", ".join(review_plan.FAIL_ON)
WHOLE = "repository"  # the name of an entry without settings and folder
API_VERSIONS = frozenset({"service/v1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The options that say what to plan."""

    folder: Path
    base: str | None
    head: str | None
    worktree: bool
    strict: bool
    whole: bool
    config: Path | None
    path: str
    repositories: tuple[str, ...]
    collector: Path | None

    def check(self, *, is_live: bool) -> None:
        """Raise UsageError for options that contradict each other. `is_live`: a server makes the plan."""
        if self.worktree and self.head is not None:
            raise click.UsageError("--worktree compares HEAD and its files; leave out --head")
        if self.path and self.config is not None:
            raise click.UsageError("--path and --config both choose what is planned; give one of them")
        if not is_live:
            return
        if self.worktree or self.path or self.config or self.strict or self.whole:
            told = "with --server the settings are the server's and what is planned is there; leave out"
            raise click.UsageError(f"{told} --worktree, --path, --config, --strict and --whole")
        if not self.repositories:
            raise click.UsageError("name a repository of the server with --repository")


@click.command()
@click.argument("folder", default=".", type=click.Path(path_type=Path, file_okay=False))
@click.option("--base", help="The branch to merge into (default: the default branch).")
@click.option("--head", help="The branch or commit to merge (default: HEAD).")
@click.option("--worktree", is_flag=True, help="Also merge uncommitted changes and new files.")
@click.option("--path", default="", metavar="FOLDER", help="The folder that a repository entry follows.")
@click.option("--config", type=click.Path(path_type=Path), help="A settings file: plan for its repositories.")
@click.option(
    "--repository",
    "repositories",
    multiple=True,
    metavar="NAME",
    help="Only this repository of --config, or of the server.",
)
@click.option(
    "--collector",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, executable=True),
    help="A Collector's program, to validate what Collectors would run.",
)
@click.option("--strict", is_flag=True, help="Refuse references to resources that are not in the tree.")
@click.option("--whole", is_flag=True, help="Read every file, and say if deletions would be held.")
@click.option("-o", "--output", "form", type=click.Choice(FORMS), default="text", help="How to show the plan (text).")
@click.option(
    "--limit",
    type=click.IntRange(min=review_plan.MINIMUM),
    default=review_plan.LIMIT,
    help="Markdown: the most bytes.",
)
@click.option("--marker", default=MARKER, help="Markdown: identifies the comment of this plan.")
@click.option("--link", metavar="URL", help="The address of a line, with {commit}, {path} and {line}.")
@click.option(DETAILED, is_flag=True, help="End with 2 if something would change.")
@click.option("--fail-on", default="", metavar="WORDS", help=f"End with 3 if one of these occurs: {KNOWN}.")
@color_option
@connected
@click.pass_context
def plan(
    context: click.Context,
    /,
    service: "Client",
    *,
    form: str,
    limit: int,
    marker: str,
    link: str | None,
    detailed_exitcode: bool,
    fail_on: str,
    color: str | None,
    **asked: Any,
) -> None:
    """Show what merging a branch would do, resource by resource. Nothing is changed.

    FOLDER is in the repository's checkout. With --server, the server plans against what is stored; otherwise no server
    is asked.
    """
    words = tuple(dict.fromkeys(word.strip() for word in fail_on.split(",") if word.strip()))
    if unknown := [word for word in words if word not in review_plan.FAIL_ON]:
        raise click.UsageError(f"--fail-on does not know {', '.join(unknown)}; it knows {KNOWN}")
    if link is not None and not (link.startswith(("https://", "http://")) and "{path}" in link):
        raise click.UsageError("--link is an address of http or https with {path} in it, and {commit} and {line}")
    options = PlanOptions(**asked)
    # Only the option counts: a plan must not wait for the server that a variable names for other commands.
    is_asked = context.get_parameter_source("server") is ParameterSource.COMMANDLINE
    is_live = is_asked and bool(context.params["server"])
    options.check(is_live=is_live)
    try:
        made = _validated(plan_by_server(service, options) if is_live else plan_from_checkout(options), options)
    except ReconcilerError as problem:
        _write_absence(form, problem, options, marker=marker)
        raise
    made = _linked(made, link)
    again = _command(made, options)
    match form:
        case "markdown":
            from reconciler.review import markdown  # noqa: PLC0415

            output.rendered(markdown.render_markdown(made, limit=limit, marker=marker, command=again))
        case "json":
            output.rendered(review_plan.render_json(made).decode())
        case "html":
            from reconciler.review import page  # noqa: PLC0415

            output.rendered(page.render_page(made, command=again))
        case "github":
            from reconciler.review import annotations  # noqa: PLC0415

            for piece in annotations.render_annotations(made):
                output.rendered(piece)
        case _:
            from reconciler.review import text  # noqa: PLC0415

            for piece in text.render_text(made, color=output.is_coloured(color), command=again):
                output.rendered(piece)
    context.exit(review_plan.exit_code(made, detailed=detailed_exitcode, fail_on=words))


def _validated(made: Plan, asked: PlanOptions) -> Plan:
    if asked.collector is None:
        return made
    from reconciler.cli import collector  # noqa: PLC0415

    return collector.validated(made, asked.collector)


def _linked(made: Plan, link: str | None) -> Plan:
    if link is None:
        return made
    entries = tuple(msgspec.structs.replace(entry, link=link) for entry in made.entries)
    return msgspec.structs.replace(made, entries=entries)


def _command(made: Plan, asked: PlanOptions) -> str:
    """Return the command that repeats the plan for the same commits, even if their branches move."""
    head = ("--worktree",) if made.head.worktree else ("--head", made.head.commit)
    # A commit does not tell its branch, so the command names the entries that follow it.
    names = () if asked.config is None and made.server is None else [entry.name for entry in made.entries]
    words = [
        *("reconciler", "plan"),
        *(("--server", made.server) if made.server is not None else ()),
        *(("--config", str(asked.config)) if asked.config is not None else ()),
        *(word for name in names for word in ("--repository", name)),
        *(("--path", asked.path) if asked.path else ()),
        *(("--collector", str(asked.collector)) if asked.collector is not None else ()),
        *(["--strict"] if asked.strict else ()),
        *(["--whole"] if asked.whole else ()),
        *("--base", made.base.commit),
        *head,
        *(["--", str(asked.folder)] if asked.folder != Path() else ()),
    ]
    return shlex.join(words)


def _write_absence(form: str, problem: ReconcilerError, asked: PlanOptions, *, marker: str) -> None:
    """Say in the comment, log or page that there is no plan: otherwise the plan of an earlier push would remain."""
    from reconciler.review import annotations  # noqa: PLC0415

    if form == "github":
        output.rendered(annotations.absent_annotation(_no_plan(problem, asked)))
    elif form == "markdown":
        output.rendered(annotations.absent_comment(_no_plan(problem, asked), marker=marker))
    elif form == "html":
        from reconciler.review import page  # noqa: PLC0415

        output.rendered(page.absent_page(_no_plan(problem, asked)))


def _no_plan(problem: ReconcilerError, asked: PlanOptions) -> "NoPlan":
    from reconciler.cli.client import Refusal  # noqa: PLC0415
    from reconciler.git.checkouts import Checkout  # noqa: PLC0415
    from reconciler.git.merging import Conflicts  # noqa: PLC0415
    from reconciler.review.annotations import NoPlan  # noqa: PLC0415

    head = asked.head or "HEAD"
    try:
        with Checkout.open(asked.folder) as checkout:
            head = checkout.resolve(head)[1][: review_plan.SHORT]
    except Refused:  # no commit here: its name does
        pass
    files: tuple[str, ...] = ()
    total = 0
    if isinstance(problem, Conflicts):
        files, total = problem.files, problem.total
    elif isinstance(problem, Refusal) and problem.codes and set(problem.codes) == {ErrorCode.MERGE_CONFLICT}:
        files, total = problem.errors, len(problem.errors)
    if files:
        told = "the two do not merge; merge the base into the head and resolve what conflicts"
        return NoPlan(head=head, sentence=told, files=files, total=total)
    return NoPlan(head=head, sentence=output.error_sentence(problem.message))


# A plan from a server, which plans against its store.


def plan_by_server(service: "Client", asked: PlanOptions) -> Plan:
    """Ask a server for a plan with one entry for each repository. Raises Refusal, Refused, Unreachable."""
    head = asked.head
    if not head:
        from reconciler.git.checkouts import Checkout  # noqa: PLC0415

        try:
            with Checkout.open(asked.folder) as checkout:
                head = checkout.resolve("HEAD")[1]
        except Refused as error:
            raise Refused(f"{error}, or name what would be merged with --head") from None
    service.everywhere()
    plans = [ask_server(service, repository=name, head=head, base=asked.base) for name in asked.repositories]
    first = plans[0]
    if any((one.base.commit, one.head.commit) != (first.base.commit, first.head.commit) for one in plans):
        raise Refused("these repositories do not follow the same: their bases or heads differ; plan one at a time")
    # If the store changed between the plans, earlier ones are stale.
    is_stale = any(one.stale or one.store_version != first.store_version for one in plans)
    return msgspec.structs.replace(
        first,
        entries=tuple(entry for one in plans for entry in one.entries),
        digest=first.digest if len(plans) == 1 else "",
        stale=is_stale,
    )


def ask_server(service: "Client", *, repository: str, head: str | None = None, base: str | None = None) -> Plan:
    """Ask for the plan of merging `head` into `base`: full refs, ids of commits, or None for what the repository
    follows.

    Raises Refusal, with a sentence for each file that conflicts, Refused and Unreachable.
    """
    from reconciler.cli.client import NO_REPOSITORY, Refusal  # noqa: PLC0415

    sides = {"head": head, "base": base}
    body: dict[str, Value] = {"repository": repository, **{name: side for name, side in sides.items() if side}}
    try:
        answer = service.post("plan", body=body)
    except Refusal as refusal:
        if refusal.codes != (ErrorCode.REPOSITORY_NOT_FOUND,):
            raise
        raise Refused(NO_REPOSITORY.format(repository)) from None
    return decoded(answer, server=service.server)


def decoded(answer: dict[str, Value], *, server: str) -> Plan:
    """Decode the plan in an answer. Raises Refused if there is none."""
    from reconciler.cli.client import NOT_OURS  # noqa: PLC0415

    shown = answer.get("plan")
    told = shown if isinstance(shown, dict) else {}
    try:
        # What a plan with one entry says of itself, and of this entry, is one object here.
        page = f"{server.rstrip('/')}/plans/{told.get('id')}"
        entry = msgspec.convert({**told, "name": told.get("repository"), "page": page}, type=PlanEntry)
        plan = msgspec.convert({**told, "server": server}, type=Plan)
    except msgspec.ValidationError:
        raise Refused(NOT_OURS) from None
    statuses = tuple(msgspec.structs.replace(one, fields=fields.with_cuts(one.fields)) for one in entry.statuses)
    return msgspec.structs.replace(plan, entries=(msgspec.structs.replace(entry, statuses=statuses),))


# A plan without a server, from the checkout of a folder.


def plan_from_checkout(asked: PlanOptions) -> Plan:
    """Plan the merge from the files of the checkout. Raises UsageError, Refused, GitFault, SettingsError."""
    from reconciler.git.checkouts import Checkout  # noqa: PLC0415
    from reconciler.review import static  # noqa: PLC0415

    if asked.config is None and asked.repositories:
        raise click.UsageError("--repository names one of --config or of --server; give one of these too")
    with Checkout.open(asked.folder) as checkout:
        base = _tip(checkout, asked.base or checkout.default_base())
        head = _tip(checkout, asked.head or "HEAD", worktree=asked.worktree)
        beside: list[static.EntrySettings] = []
        versions, refuse_unknown, patterns = API_VERSIONS, False, secret_references.DEFAULT_PATTERNS
        if asked.config is not None:
            settings, chosen = _choose(asked.config, asked.repositories, base=base.ref, remotes=checkout.remotes())
            entries, beside = list(map(_entry, chosen.entries)), list(map(_entry, chosen.beside))
            versions, refuse_unknown = frozenset(settings.api.api_versions), settings.resources.refuse_unknown
            patterns = settings.secrets.env
        else:
            link = next(filter(None, map(forges.line_pattern, checkout.remotes())), "")
            folder = "/".join(part for part in asked.path.split("/") if part not in ("", "."))
            entries = [static.EntrySettings(name=folder or WHOLE, path=folder, link=link)]
        merged = checkout.merge(base.commit, checkout.worktree_commit() if asked.worktree else head.commit)
        _check_folders(merged, entries)
        options = static.StaticOptions(
            strict=asked.strict, whole=asked.whole, refuse_unknown=refuse_unknown, secrets=patterns
        )
        planned = static.plan_static(
            merged, [*entries, *beside], api_versions=versions, now=datetime.now(UTC), options=options
        )
        return Plan(
            base=base,
            head=head,
            merge_base=merged.merge_base,
            behind=merged.behind,
            ahead=merged.ahead,
            entries=planned[: len(entries)],
        )


def _tip(checkout: "Checkout", name: str, *, worktree: bool = False) -> PlanTip:
    ref, commit = checkout.resolve(name)
    return PlanTip(ref=ref, commit=commit, worktree=worktree)


def _choose(
    config: Path, names: Sequence[str], *, base: str, remotes: Sequence[str]
) -> "tuple[Settings, ChosenEntries]":
    """Choose repositories of a settings file by name, or by the checkout's remote. Notes name those that are left out.

    Raises SettingsError, Refused.
    """
    from reconciler.cli import entries  # noqa: PLC0415

    settings = entries.load_settings(config)
    branch = base.removeprefix("refs/heads/").removeprefix("refs/remotes/").removeprefix("origin/")
    chosen = entries.choose_entries(settings.repositories, config=config, names=names, remotes=remotes, branch=branch)
    for note in chosen.notes:
        output.note(note)
    return settings, chosen


def _entry(one: "Repository") -> "EntrySettings":
    from reconciler.review.static import EntrySettings  # noqa: PLC0415

    link = forges.line_pattern(one.url, one.web_url)
    return EntrySettings(**msgspec.structs.asdict(one.rules), project=one.project, link=link)


def _check_folders(merged: "Merged", entries: "Sequence[EntrySettings]") -> None:
    """Raise Refused for a folder that neither side has: with a typing mistake there would never be changes."""
    from reconciler.git.faults import GitFault, RepositoryState  # noqa: PLC0415

    for entry in entries:
        for side in (merged.base, merged.merged):
            try:
                side.tree(entry.path)
                break
            except GitFault as fault:
                if fault.state is not RepositoryState.PATH_MISSING:
                    raise
        else:
            folder = visible(entry.path)
            raise Refused(
                f"neither side has the folder {folder} of {visible(entry.name)}; correct --path or the settings"
            )
