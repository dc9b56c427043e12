"""Matching: which destinations the records of a resource go to, held against a look at every route."""

import tracemalloc
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from reconciler.delivery import intake
from reconciler.delivery.intake import Matcher
from reconciler.model.routes import Route, Routes


def routes(*given: tuple[dict[str, str], tuple[str, ...]]) -> Routes:
    made = tuple(
        Route(configuration=f"c{number}", labels=tuple(sorted(labels.items())), destinations=destinations)
        for number, (labels, destinations) in enumerate(given)
    )
    return Routes(project="default", routes=made)


def test_records_go_where_all_labels_of_a_configuration_are_attributes_of_their_resource() -> None:
    matcher = Matcher(
        routes(
            ({"role": "web"}, ("siem",)),
            ({"role": "web", "stage": "production"}, ("archive", "siem")),
            ({}, ("all",)),
            ({"role": ""}, ("empty",)),
        )
    )
    assert matcher.of({"role": "web", "host.name": "a"}) == ("siem", "all")
    assert matcher.of({"role": "web", "stage": "production"}) == ("siem", "archive", "all")
    assert matcher.of({"stage": "production"}) == ("all",)
    assert matcher.of({"role": ""}) == ("all", "empty")
    assert matcher.of({}) == ("all",)


def test_without_a_route_nothing_goes_anywhere() -> None:
    assert Matcher(Routes(project="default")).of({"role": "web"}) == ()


def test_what_is_remembered_is_bounded_and_does_not_grow_with_what_no_route_names() -> None:
    matcher = Matcher(routes(*(({f"k{number}": "v"}, (f"d{number}",)) for number in range(20))))

    def bytes_after(numbers: range) -> int:
        for number in numbers:
            attributes = {f"k{bit}": "v" for bit in range(20) if number >> bit & 1}
            assert matcher.of(attributes) == tuple(f"d{bit}" for bit in range(20) if number >> bit & 1)
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        few = bytes_after(range(8, 9))
        for number in range(10_000):
            assert matcher.of({"host.name": f"h{number}", "k3": "v"}) == ("d3",)
        assert bytes_after(range(8, 9)) - few < 10_000
        full = bytes_after(range(intake.MOST_ANSWERS))
        assert bytes_after(range(2 * intake.MOST_ANSWERS, 4 * intake.MOST_ANSWERS)) - full < 0.5 * (full - few)
    finally:
        tracemalloc.stop()


LABELS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["", "1", "2"]), max_size=3)
NAMES = st.lists(st.sampled_from(["x", "y", "z"]), max_size=3, unique=True).map(tuple)


def looked(given: Routes, attributes: Mapping[str, str]) -> tuple[str, ...]:
    found: list[str] = []
    for route in given.routes:
        if all(attributes.get(key) == value for key, value in route.labels):
            found += [name for name in route.destinations if name not in found]
    return tuple(found)


@given(st.lists(st.tuples(LABELS, NAMES), max_size=12), st.lists(LABELS, min_size=1, max_size=8))
def test_it_finds_what_a_look_at_every_route_finds(
    made: list[tuple[dict[str, str], tuple[str, ...]]], resources: list[dict[str, str]]
) -> None:
    held = routes(*made)
    matcher = Matcher(held)
    for attributes in (*resources, *resources):
        assert matcher.of(attributes) == looked(held, attributes)
