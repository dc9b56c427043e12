"""Small requests are cut as the walk cuts them, whatever their bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from reconciler.delivery.otlp import wire
from reconciler.delivery.otlp.wire import Cut
from reconciler.model import errors
from tests.delivery.otlp.requests import REQUESTS, group, request


def walked(data: bytes) -> list[Cut] | None:
    """None for what is refused."""
    try:
        return [step for step in wire.walk(data) if isinstance(step, Cut) and step.records]
    except errors.ReconcilerError:
        return None


@given(REQUESTS)
def test_what_exporters_write_is_cut_at_once_and_alike(message: ExportLogsServiceRequest) -> None:
    data = message.SerializeToString()
    assert wire.cut_small(data) in (walked(data), None)


def test_the_usual_form_needs_no_walk() -> None:
    data = request(group("one", "two" * 100, service="checkout"), group(), group("three"))
    found = wire.cut_small(data)
    assert found is not None
    assert found == walked(data)
    assert [cut.records for cut in found] == [2, 1]


@given(REQUESTS, st.data())
def test_what_was_changed_is_cut_alike_or_left_to_the_walk(
    message: ExportLogsServiceRequest, draw: st.DataObject
) -> None:
    data = bytearray(message.SerializeToString())
    for _ in range(draw.draw(st.integers(0, 3))):
        if data:
            data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    changed = bytes(data[: draw.draw(st.integers(0, len(data)))])
    found = wire.cut_small(changed)
    assert found is None or found == walked(changed)


@given(st.binary(max_size=40))
def test_any_bytes_are_cut_alike_or_left_to_the_walk(data: bytes) -> None:
    found = wire.cut_small(data)
    assert found is None or found == walked(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",  # ends within a length
        b"\x0a\x05\x12\x01",  # is longer than it is
        b"\x0a\x04\x12\x05\x12\x00\x12\x00",  # a scope that reaches beyond its resource
        b"\x0a\x81\x80\x00\x00",  # a length of three bytes
        b"\x8a\x00\x00",  # a tag of two
        b"\x0a\x04\x0a\x00\x0a\x00",  # two resources
        b"\x08\x01",  # no resource
        b"\x0a\x02\x13\x14",  # a group of the old kind
    ],
)
def test_whatever_else_is_left_to_the_walk(data: bytes) -> None:
    assert wire.cut_small(data) is None
