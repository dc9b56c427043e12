"""Requests are counted as they end, each in one place."""

from math import inf

from reconciler.ops import traffic as module
from reconciler.ops.traffic import BUCKETS, Traffic


def counted(traffic: Traffic) -> dict[tuple[str, ...], object]:
    steps = module.request_steps(traffic, {})
    return {one.labels: one.value for one in steps if one.family is module.REQUESTS}


def test_by_route_method_and_class_of_the_status() -> None:
    traffic, one, other = Traffic(), "/v1/things/{name}", "/v1/others"
    for status in (200, 204, 304, 404, 500, 0):
        traffic.note(one, "GET", status, 0.001)
    traffic.note(other, "POST", 201, 0.001)
    assert counted(traffic) == {
        ("/v1/others", "POST", "2xx"): 1,
        ("/v1/things/{name}", "GET", "2xx"): 2,
        ("/v1/things/{name}", "GET", "3xx"): 1,
        ("/v1/things/{name}", "GET", "4xx"): 1,
        ("/v1/things/{name}", "GET", "5xx"): 1,
        ("/v1/things/{name}", "GET", "none"): 1,
    }


def test_what_leads_nowhere_is_one_route_and_methods_that_nobody_knows_are_one_method() -> None:
    traffic, one = Traffic(), "/v1/things"
    for number in range(1_000):
        traffic.note("", "GET", 404, 0.001)
        traffic.note("", f"M{number}", 404, 0.001)
        traffic.note(one, f"M{number}", 405, 0.001)
    assert counted(traffic) == {
        ("/v1/things", "other", "4xx"): 1_000,
        ("unmatched", "GET", "4xx"): 1_000,
        ("unmatched", "other", "4xx"): 1_000,
    }
    assert len(traffic.seconds) == 3


def test_a_duration_counts_up_to_its_bound_and_no_further() -> None:
    traffic, one = Traffic(), "/v1/things"
    for seconds in (0.0, 0.001, 0.0011, 10.0, 11.0):
        traffic.note(one, "GET", 200, seconds)
    (seen,) = traffic.seconds.values()
    found = dict(zip((*BUCKETS, inf), seen.counts, strict=True))
    assert {bound: number for bound, number in found.items() if number} == {0.001: 2, 0.0025: 1, 10.0: 1, inf: 1}
    assert seen.total == 21.0021
