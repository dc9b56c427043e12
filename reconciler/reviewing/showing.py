"""A plan as the API shows it. What is in the statuses is `encoding`'s business."""

import msgspec

from reconciler.model.plan import PlanTip
from reconciler.reviewing.keeping import KeptPlan


def plan_head(kept: KeptPlan, *, stale: bool) -> bytes:
    """The plan as a JSON object, without its statuses."""
    found = kept.found
    return msgspec.json.encode(
        {
            "id": kept.id,
            "digest": kept.digest,
            "repository": kept.repository,
            "project": kept.project,
            "path": found.entry.path,
            "base": _tip(kept.question.base),
            "head": _tip(kept.question.head),
            "mergeBase": kept.merge_base,
            "behind": kept.behind,
            "ahead": kept.ahead,
            "storeVersion": kept.revision,
            "stale": stale,
            "createdAt": kept.created_at,
            "refused": found.entry.refused,
            "counts": found.counts,
            "unchanged": found.entry.unchanged,
            "untouchedFiles": found.entry.untouched_files,
            "held": found.entry.held,
            "notes": found.entry.notes,
        }
    )


def plan_statuses(kept: KeptPlan, *, with_raw: bool) -> tuple[bytes, ...]:
    """Its statuses as JSON objects, in their order, for who may read raw texts or for who may not."""
    return kept.found.statuses if with_raw else kept.found.without_raw


def _tip(tip: PlanTip) -> dict[str, str]:
    return {"ref": tip.ref, "commit": tip.commit}
