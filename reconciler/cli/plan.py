"""`reconciler plan`."""

import http
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from click.core import ParameterSource

from reconciler.cli import exits, output, plan_options
from reconciler.cli.plan_options import PlanOptions
from reconciler.cli.session import Session, connected
from reconciler.model.errors import ReconcilerError
from reconciler.model.plan import Plan, PlanPlace, PlanTip
from reconciler.review import annotations, markdown, text
from reconciler.review import plan as review_plan
from reconciler.review.annotations import NoPlan

# Which skin a plan gets, as the options say.

FORMS = ("text", "markdown", "json", "github")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRendering:
    """How the plan is shown."""

    form: str
    limit: int
    marker: str
    link: str | None

    def render(self, plan: Plan, *, color: bool, has_worktree: bool) -> Iterator[str]:
        """The plan in pieces; `has_worktree` as in `text.render_text`."""
        match self.form:
            case "markdown":
                link = None if self.link is None else _linking(self.link)
                yield markdown.render_markdown(plan, limit=self.limit, marker=self.marker, link=link)
            case "json":
                yield review_plan.render_json(plan).decode()
            case "github":
                yield from annotations.render_annotations(plan)
            case _:
                yield from text.render_text(plan, color=color, has_worktree=has_worktree)

    @property
    def tells_failures(self) -> bool:
        """Whether a reader of what this writes must learn from it that there is no plan."""
        return self.form in ("markdown", "github")

    def failure(self, problem: ReconcilerError, *, head: str) -> str:
        """That there is no plan of the head. Others write nothing: the sentence goes to standard error anyway."""
        found = _no_plan(problem, head=head)
        if self.form == "github":
            return annotations.absent_annotation(found)
        return annotations.absent_comment(found, marker=self.marker, limit=self.limit)


def check_link(link: str | None) -> None:
    """Raises UsageError for a template that makes no address of a place."""
    if link is not None and not (link.startswith(("https://", "http://")) and "{path}" in link):
        raise click.UsageError("--link is an address of http or https with {path} in it, and {commit} and {line}")


def _no_plan(problem: ReconcilerError, *, head: str) -> NoPlan:
    # A plan that is made loads neither of them for this.
    from reconciler.cli.client import Refusal  # noqa: PLC0415
    from reconciler.git.merging import Conflicts  # noqa: PLC0415

    if isinstance(problem, Conflicts):
        told = "the two do not merge; merge the base into the head and resolve what conflicts"
        return NoPlan(head=head, sentence=told, files=problem.files, total=problem.total)
    if isinstance(problem, Refusal) and problem.status == http.HTTPStatus.CONFLICT:
        return NoPlan(head=head, sentence="the two do not merge", files=problem.errors, total=len(problem.errors))
    return NoPlan(head=head, sentence=output.error_sentence(problem.message))


def _linking(template: str) -> markdown.Link:
    def link(place: PlanPlace, side: PlanTip) -> str:
        path = quote(place.path)
        return template.replace("{commit}", side.commit).replace("{path}", path).replace("{line}", str(place.line))

    return link


# `reconciler plan`: what merging would do, for a person, a forge, or a program.

MARKER = "default"
DETAILED = "--detailed-exitcode"
KNOWN = ", ".join(review_plan.FAIL_ON)


class _Plan(click.Command):
    """With `--detailed-exitcode`, 2 means changes: then a command that is written wrongly ends like any other error."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        is_detailed = DETAILED in args
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            raise _told(error, is_detailed=is_detailed) from None

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except click.UsageError as error:
            raise _told(error, is_detailed=bool(context.params["detailed_exitcode"])) from None


class _Wrong(click.UsageError):
    exit_code = exits.ERROR


def _told(error: click.UsageError, *, is_detailed: bool) -> click.UsageError:
    return _Wrong(error.message, error.ctx) if is_detailed else error


@click.command(cls=_Plan)
@click.argument("folder", default=".", type=click.Path(path_type=Path, file_okay=False))
@click.option("--base", help="What would be merged into (default: the default branch).")
@click.option("--head", help="What would be merged (default: HEAD).")
@click.option("--worktree", is_flag=True, help="Merge what is not committed too, also new files.")
@click.option("--path", "paths", multiple=True, metavar="FOLDER", help="A folder that a repository entry follows.")
@click.option("--config", type=click.Path(path_type=Path), help="A settings file: plan for its repositories.")
@click.option("--repository", "repositories", multiple=True, metavar="NAME", help="One of those, or of the server's.")
@click.option("--strict", is_flag=True, help="Refuse a reference to what is not in the tree.")
@click.option("--whole", is_flag=True, help="Read every file, and judge whether deletions would be held.")
@click.option("-o", "--output", "form", type=click.Choice(FORMS), default="text", help="How to show the plan (text).")
@click.option(
    "--limit",
    type=click.IntRange(min=markdown.MINIMUM),
    default=markdown.LIMIT,
    help="Markdown: at most so many bytes.",
)
@click.option("--marker", default=MARKER, help="Markdown: tells the comment of this plan from those of others.")
@click.option("--link", metavar="URL", help="Markdown: where a line is, with {commit}, {path} and {line}.")
@click.option(DETAILED, is_flag=True, help="End with 2 when something would change.")
@click.option("--fail-on", default="", metavar="WORDS", help=f"End with 3 when one occurs: {KNOWN}.")
@connected
@click.pass_context
def plan(
    context: click.Context,
    session: Session,
    *,
    folder: Path,
    base: str | None,
    head: str | None,
    worktree: bool,
    paths: tuple[str, ...],
    config: Path | None,
    repositories: tuple[str, ...],
    strict: bool,
    whole: bool,
    form: str,
    limit: int,
    marker: str,
    link: str | None,
    detailed_exitcode: bool,
    fail_on: str,
) -> None:
    """Show what merging a branch would do, resource by resource.

    FOLDER is in the repository's checkout. Nothing is changed and no server is asked, unless --server is given: then
    the plan is made there, against what is stored.
    """
    wanted = plan_options.fail_on(fail_on)
    check_link(link)
    asked = PlanOptions(
        folder=folder,
        base=base,
        head=head,
        worktree=worktree,
        strict=strict,
        whole=whole,
        config=config,
        paths=paths,
        repositories=repositories,
    )
    asked.check()
    skin, is_live = PlanRendering(form=form, limit=limit, marker=marker, link=link), _is_live(context)
    try:
        made = _made(session, asked, is_live=is_live)
    except ReconcilerError as problem:
        _tell_failure(skin, problem, asked)
        raise
    has_worktree = not is_live and not made.ahead and _has_worktree(asked)
    for piece in skin.render(made, color=session.coloured, has_worktree=has_worktree):
        output.rendered(piece)
    context.exit(review_plan.exit_code(made, detailed=detailed_exitcode, fail_on=wanted))


def _made(session: Session, asked: PlanOptions, *, is_live: bool) -> Plan:
    # Either takes libraries that the other does without, and longer to import than many a plan takes.
    if is_live:
        from reconciler.cli import plan_sources  # noqa: PLC0415

        return plan_sources.plan_by_server(session, asked)
    from reconciler.cli import plan_sources  # noqa: PLC0415

    return plan_sources.plan_from_checkout(asked)


def _tell_failure(skin: PlanRendering, problem: ReconcilerError, asked: PlanOptions) -> None:
    """Have a comment, or a job's log, say that there is no plan: the one of an earlier push must not stay for it."""
    if skin.tells_failures:
        from reconciler.cli import plan_sources  # noqa: PLC0415

        output.rendered(skin.failure(problem, head=plan_sources.checkout_head(asked)))


def _has_worktree(asked: PlanOptions) -> bool:
    from reconciler.cli import plan_sources  # noqa: PLC0415

    return plan_sources.has_worktree(asked)


def _is_live(context: click.Context) -> bool:
    """Whether a server was asked for here: a variable for other commands must not make a plan wait for one."""
    root = context.find_root()
    above = root.params.get("server") if root.get_parameter_source("server") is ParameterSource.COMMANDLINE else None
    return bool(above or context.params.get("server"))
