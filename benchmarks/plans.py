"""Plans: how long each skin takes for 5,000 changed resources with five fields each, and how much memory all take."""

import statistics
import time
import tracemalloc
from collections.abc import Callable

from benchmarks.figures import Figure
from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import Plan, PlanDifference, PlanEntry, PlanField, PlanPlace, PlanStatus, PlanTip, in_order
from reconciler.review import annotations, markdown, plan, text

RESOURCES = 5_000
FIELDS = 5
LIMIT = 1.0  # seconds, for all skins together
MEMORY = 64  # MiB beside the plan, for the skin that takes most
ROUNDS = 3

SKINS: dict[str, Callable[[Plan], object]] = {
    "text": lambda plan: sum(map(len, text.render_text(plan, color=False))),
    "markdown": lambda plan: markdown.render_markdown(plan, marker="benchmark"),
    "json": plan.render_json,
    "github": lambda plan: sum(map(len, annotations.render_annotations(plan))),
}


def rendering() -> list[Figure]:
    """Each skin's time, all of them together, and the most memory that one takes."""
    plan = _plan()
    taken = {name: _seconds(skin, plan) for name, skin in SKINS.items()}
    peak = max(_mebibytes(skin, plan) for skin in SKINS.values())
    whole = sum(taken.values())
    each = ", ".join(f"{name} {seconds:.2f}" for name, seconds in taken.items())
    what = f"a plan of {RESOURCES:,} resources with {FIELDS} fields"
    return [
        Figure(f"{what}, in every skin", f"{whole:.2f} s ({each})", f"limit {LIMIT:.0f} s", f"{whole / LIMIT:.2f}"),
        Figure(f"{what}, memory of a skin", f"{peak:.0f} MiB", f"limit {MEMORY} MiB", f"{peak / MEMORY:.2f}"),
    ]


def _plan() -> Plan:
    statuses = in_order(_status(number) for number in range(RESOURCES))
    base, head = PlanTip(ref="main", commit="9a" * 20), PlanTip(ref="feature", commit="3f" * 20)
    return Plan(
        base=base,
        head=head,
        merge_base=base.commit,
        entries=(PlanEntry(link="https://forge/{path}", name="shop", statuses=statuses),),
    )


def _status(number: int) -> PlanStatus:
    path = f"teams/team-{number % 50:02}/destination-{number:05}.yaml"
    return PlanStatus(
        status=UpdateStatus.CONFIGURED,
        kind="Destination",
        name=f"destination-{number:05}",
        at=PlanPlace(path=path, line=3),
        fields=tuple(_field(path, number, at) for at in range(FIELDS)),
        owners=(f"@shop/team-{number % 50:02}",),
    )


def _field(path: str, number: int, at: int) -> PlanField:
    return PlanField(
        path=f"spec.parameters[parameter-{at}].value",
        difference=PlanDifference.CHANGED,
        old=f"https://old-{number}.example/{at}",
        new=f"https://new-{number}.example/{at}",
        at=PlanPlace(path=path, line=5 + at),
    )


def _seconds(skin: Callable[[Plan], object], plan: Plan) -> float:
    taken = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        skin(plan)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def _mebibytes(skin: Callable[[Plan], object], plan: Plan) -> float:
    tracemalloc.start()
    try:
        skin(plan)
        return tracemalloc.get_traced_memory()[1] / (1 << 20)
    finally:
        tracemalloc.stop()
