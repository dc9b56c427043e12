"""Dividing a request among destinations."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from reconciler.delivery.intake import split_request
from reconciler.delivery.otlp.models import Logs, RecordGroup

NAMES = ("a", "b", "c")


def logs(*groups: RecordGroup) -> Logs:
    return Logs(groups, sum(one.records for one in groups))


def by_attribute(attributes: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(attributes["to"])


groups = st.builds(
    lambda data, records, to: RecordGroup(data, records, {"to": "".join(sorted(to))}),
    st.binary(min_size=1, max_size=4),
    st.integers(min_value=1, max_value=9),
    st.sets(st.sampled_from(NAMES)),
)


@given(st.lists(groups, max_size=8))
def test_each_group_goes_once_to_each_of_its_destinations_in_the_order_in_which_it_came(
    given: list[RecordGroup],
) -> None:
    divided = split_request(logs(*given), by_attribute)
    for name in NAMES:
        wanted = [one for one in given if name in one.attributes["to"]]
        if not wanted:
            assert name not in divided.shares
            continue
        share = divided.shares[name]
        assert list(share.pieces) == [one.data for one in wanted]
        assert share.records == sum(one.records for one in wanted)
        assert share.size == sum(len(one.data) for one in wanted)
    assert divided.unrouted == sum(one.records for one in given if not one.attributes["to"])


def test_a_request_without_groups_goes_nowhere() -> None:
    assert split_request(logs(), by_attribute) == ({}, 0)
