"""Which skin a plan gets, as the options say.

Belongs here: choosing one, and links to places. Does not: the skins (`reconciler.plans`).
"""

import http
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import click

from reconciler.cli import words
from reconciler.model.errors import ReconcilerError
from reconciler.model.plan import Plan, PlanPlace, PlanTip
from reconciler.review import annotations, markdown, text
from reconciler.review import plan as review_plan
from reconciler.review.annotations import NoPlan

FORMS = ("text", "markdown", "json", "github")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRendering:
    """How the plan is shown."""

    form: str
    limit: int
    marker: str
    link: str | None

    def render(self, plan: Plan, *, color: bool, has_worktree: bool) -> Iterator[str]:
        """The plan in pieces; `has_worktree` as in `text.render`."""
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
    return NoPlan(head=head, sentence=words.error_sentence(problem.message))


def _linking(template: str) -> markdown.Link:
    def link(place: PlanPlace, side: PlanTip) -> str:
        path = quote(place.path)
        return template.replace("{commit}", side.commit).replace("{path}", path).replace("{line}", str(place.line))

    return link
