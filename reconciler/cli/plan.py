"""`reconciler plan`: what merging would do, for a person, a forge, or a program.

Belongs here: the options, and how the command ends. Does not: which of them go together (`plan_options`), making a plan
(`plan_static`, or by a server `plan_server`), showing it (`plan_skins`).
"""

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from reconciler.cli import exits, output, plan_options, plan_skins
from reconciler.cli.plan_options import PlanOptions
from reconciler.cli.plan_skins import FORMS, PlanRendering
from reconciler.cli.sessions import Session, connected
from reconciler.model.errors import ReconcilerError
from reconciler.model.plan import Plan
from reconciler.review import markdown
from reconciler.review import plan as review_plan

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
    plan_skins.check_link(link)
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
        from reconciler.cli import plan_server  # noqa: PLC0415

        return plan_server.plan_by_server(session, asked)
    from reconciler.cli import plan_static  # noqa: PLC0415

    return plan_static.plan_from_checkout_plan_static(asked)


def _tell_failure(skin: PlanRendering, problem: ReconcilerError, asked: PlanOptions) -> None:
    """Have a comment, or a job's log, say that there is no plan: the one of an earlier push must not stay for it."""
    if skin.tells_failures:
        from reconciler.cli import plan_static  # noqa: PLC0415

        output.rendered(skin.failure(problem, head=plan_static.checkout_head(asked)))


def _has_worktree(asked: PlanOptions) -> bool:
    from reconciler.cli import plan_static  # noqa: PLC0415

    return plan_static.has_worktree(asked)


def _is_live(context: click.Context) -> bool:
    """Whether a server was asked for here: a variable for other commands must not make a plan wait for one."""
    root = context.find_root()
    above = root.params.get("server") if root.get_parameter_source("server") is ParameterSource.COMMANDLINE else None
    return bool(above or context.params.get("server"))
