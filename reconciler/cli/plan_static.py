"""A plan without a server, made from the checkout that a folder is in.

Belongs here: from options to the two commits and the entries. Does not: planning (`reviewing.static`), which entries
there are (`plan_entries`).
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from reconciler.cli import output, plan_entries
from reconciler.cli.plan_entries import Judging
from reconciler.cli.plan_options import PlanOptions
from reconciler.git.checkouts import Checkout
from reconciler.model.errors import Refused
from reconciler.model.plan import Plan, PlanTip
from reconciler.review import plan, static
from reconciler.review.static import EntrySettings, StaticOptions

API_VERSIONS = frozenset({"service/v1"})


def plan_from_checkout_plan_static(asked: PlanOptions) -> Plan:
    """What merging would do, by what is in the repository. Raises UsageError, Refused, GitFault, SettingsError."""
    with Checkout.open(asked.folder) as checkout:
        base = _tip(checkout, asked.base or checkout.default_base())
        head = _tip(checkout, asked.head or "HEAD", worktree=asked.worktree)
        chosen, judging = _entries(asked, base=base.ref)
        merged = checkout.merge(base.commit, checkout.worktree_commit() if asked.worktree else head.commit)
        plan_entries.check_folders(merged, chosen, config=asked.config)
        entries = static.plan_static(
            merged,
            chosen,
            api_versions=judging.api_versions,
            now=datetime.now(UTC),
            options=StaticOptions(strict=asked.strict, whole=asked.whole, refuse_unknown=judging.refuse_unknown),
        )
        return Plan(
            base=base,
            head=head,
            merge_base=merged.merge_base,
            behind=merged.behind,
            ahead=merged.ahead,
            entries=entries,
        )


def has_worktree(asked: PlanOptions) -> bool:
    """Whether what is planned is HEAD without files that lie there and may not be committed. Raises Refused."""
    if asked.worktree or asked.head not in (None, "HEAD"):
        return False
    with Checkout.open(asked.folder) as checkout:
        return checkout.root is not None


def checkout_head(asked: PlanOptions) -> str:
    """The short id of what would be merged; what it was called where that is no commit here."""
    name = asked.head or "HEAD"
    try:
        with Checkout.open(asked.folder) as checkout:
            return checkout.resolve(name)[1][: plan.SHORT]
    except Refused:
        return name


def _tip(checkout: Checkout, name: str, *, worktree: bool = False) -> PlanTip:
    ref, commit = checkout.resolve(name)
    return PlanTip(ref=ref, commit=commit, worktree=worktree)


def _entries(asked: PlanOptions, *, base: str) -> tuple[Sequence[EntrySettings], Judging]:
    if asked.config is None:
        if asked.repositories:
            raise click.UsageError("--repository names one of --config or of --server; give one of these too")
        return plan_entries.entries_of_folders(asked.paths), Judging(API_VERSIONS)
    chosen, judging, notes = plan_entries.entries_of_settings(asked.config, asked.repositories, base=base)
    for note in notes:
        output.note(note)
    return chosen, judging
