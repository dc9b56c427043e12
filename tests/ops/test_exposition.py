"""Samples become text that a reader of the format takes, whatever is in them, in slices."""

import asyncio
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import parser

from reconciler.model.histogram import Histogram
from reconciler.ops import metric_families
from reconciler.ops.metric_families import MOST_SAMPLES, Sample, counter, gauge, histogram

COUNTER = counter("x_things_total", "Things that were counted.", "name")
GAUGE = gauge("x_level", "A level.")
SECONDS = histogram("x_seconds", "How long it took.", "who", "where")


def written(samples: Iterable[Sample]) -> list[str]:
    async def all_slices() -> list[str]:
        return [text.decode() async for text in metric_families.text_slices(samples)]

    return asyncio.run(all_slices())


def read(text: str) -> list[tuple[str, dict[str, str], float]]:
    families = parser.text_string_to_metric_families(text)
    return [(one.name, one.labels, one.value) for family in families for one in family.samples]


def seconds(*values: float) -> Histogram:
    found = Histogram((0.1, 1.0))
    for value in values:
        found.note(value)
    return found


def test_the_text_format_is_written_so() -> None:
    samples = [
        Sample(COUNTER, 3, ("a",)),
        Sample(COUNTER, 4, ("b",)),
        Sample(GAUGE, -0.5),
        Sample(SECONDS, seconds(0.1, 0.5, 7.0), ("me", "here")),
    ]
    assert "".join(written(samples)) == (
        "# HELP x_things_total Things that were counted.\n"
        "# TYPE x_things_total counter\n"
        'x_things_total{name="a"} 3\n'
        'x_things_total{name="b"} 4\n'
        "# HELP x_level A level.\n"
        "# TYPE x_level gauge\n"
        "x_level -0.5\n"
        "# HELP x_seconds How long it took.\n"
        "# TYPE x_seconds histogram\n"
        'x_seconds_bucket{who="me",where="here",le="0.1"} 1\n'
        'x_seconds_bucket{who="me",where="here",le="1.0"} 2\n'
        'x_seconds_bucket{who="me",where="here",le="+Inf"} 3\n'
        'x_seconds_sum{who="me",where="here"} 7.6\n'
        'x_seconds_count{who="me",where="here"} 3\n'
    )


def test_nothing_is_an_answer_too() -> None:
    assert written([]) == [""]


@given(labels=st.lists(st.text(st.characters(codec="utf-8")), unique=True, max_size=5))
def test_a_label_may_hold_anything(labels: list[str]) -> None:
    text = "".join(written([Sample(COUNTER, number, (label,)) for number, label in enumerate(labels)]))
    assert len(text.split("\n")) == (3 + len(labels) if labels else 1)
    found = read(text)
    assert found == [("x_things_total", {"name": label}, number) for number, label in enumerate(labels)]


@given(st.lists(st.floats(0, 10), max_size=40))
def test_a_histogram_counts_each_value_where_it_is(values: list[float]) -> None:
    found = read("".join(written([Sample(SECONDS, seconds(*values), ("me", "here"))])))
    by_bound = {labels["le"]: number for name, labels, number in found if name == "x_seconds_bucket"}
    below = {bound: sum(value <= float(bound) for value in values) for bound in ("0.1", "1.0", "+Inf")}
    assert by_bound == below
    (total,) = [number for name, _, number in found if name == "x_seconds_sum"]
    assert total == pytest.approx(sum(values))


def test_no_slice_is_of_more_than_so_many_samples_and_others_have_their_turn_between_two() -> None:
    taken: list[int] = []
    turns: list[int] = []

    def samples() -> Iterator[Sample]:
        for number in range(3 * MOST_SAMPLES):
            taken.append(number)
            yield Sample(COUNTER, number, (str(number),))

    async def other() -> None:
        while True:
            turns.append(len(taken))
            await asyncio.sleep(0)

    async def both() -> list[bytes]:
        beside = asyncio.create_task(other())
        found = [text async for text in metric_families.text_slices(samples())]
        beside.cancel()
        return found

    found = asyncio.run(both())
    assert turns == [MOST_SAMPLES + 1, 2 * MOST_SAMPLES + 1]
    assert [text.count(b"x_things_total{") for text in found] == [MOST_SAMPLES] * 3
