"""The cost of a large plan. The figures are in `benchmarks/plans.py`; these bounds only catch what got out of hand."""

import time
import tracemalloc

from reconciler.review import annotations, markdown, text
from reconciler.review import plan as review_plan
from tests.review import samples


def test_five_thousand_resources_are_rendered_in_every_skin() -> None:
    plan = samples.large()
    begun = time.perf_counter()
    pieces = sum(1 for _ in text.render_text(plan, color=False))
    assert pieces > 15_000
    assert len(review_plan.render_json(plan)) > 1_000_000
    assert len(markdown.render_markdown(plan, marker="x")) <= review_plan.LIMIT
    assert len(list(annotations.render_annotations(plan))) == 1 + 10 + 9
    assert time.perf_counter() - begun < 10


def test_text_and_comment_take_little_memory() -> None:
    plan = samples.large(2_000)
    tracemalloc.start()
    try:
        for _ in text.render_text(plan, color=False):
            pass
        markdown.render_markdown(plan, marker="x")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
