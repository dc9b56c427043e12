"""That there is no plan, where the plan of an earlier push would stay otherwise."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.review import annotations, page
from reconciler.review.annotations import NoPlan
from reconciler.review.plan import LIMIT
from tests import hostile_text
from tests.review import commonplace
from tests.review.strategies import NAMES, TEXTS
from tests.review.test_annotations import COMMAND
from tests.review.test_page import TAGS, Reader

FOUND = st.builds(
    NoPlan,
    head=NAMES,
    sentence=TEXTS,
    files=st.lists(NAMES, max_size=5).map(tuple) | st.just(("x" * 300,) * 150),
    total=st.integers(0, 1_000),
)
CONFLICT = NoPlan(head="3f2a1c9", sentence="the two do not merge", files=("a.yaml", "b`.yaml"), total=14)


def test_the_comment_has_the_mark_of_the_plan_and_every_file() -> None:
    assert annotations.absent_comment(CONFLICT, marker="prod") == (
        "<!-- reconciler-plan: prod -->\n"
        "### No plan for `3f2a1c9`: `the two do not merge`\n\n"
        "- `a.yaml`\n- ``b`.yaml``\n- `and 12 more files`\n"
    )


def test_the_annotation_is_one_error() -> None:
    assert annotations.absent_annotation(CONFLICT) == (
        "::error title=No plan for 3f2a1c9::the two do not merge%0Aa.yaml%0Ab`.yaml%0Aand 12 more files\n"
    )


@given(FOUND)
def test_whatever_is_told_is_quoted_and_short(found: NoPlan) -> None:
    comment = annotations.absent_comment(found, marker="prod")
    assert commonplace.faults(comment) == []
    assert comment.split("\n")[1].startswith("### No plan for `")
    assert len(comment.encode()) <= LIMIT // 2
    assert hostile_text.unseen(comment) == []


@given(FOUND.filter(lambda found: found.sentence != ""))
def test_an_annotation_is_one_command(found: NoPlan) -> None:
    shown = annotations.absent_annotation(found)
    assert hostile_text.unseen(shown) == []
    assert COMMAND.fullmatch(shown.removesuffix("\n"))


@given(FOUND)
def test_a_page_has_our_own_tags_alone(found: NoPlan) -> None:
    html = page.absent_page(found)
    read = Reader(html)
    assert read.tags <= TAGS
    assert (read.open, read.links) == ([], [])
    assert hostile_text.unseen(html) == []
