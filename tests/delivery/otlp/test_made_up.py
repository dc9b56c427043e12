"""The record that tries a destination is a request like any other."""

import pytest

from reconciler.delivery.otlp import bodies, reading
from tests.delivery.otlp.requests import parsed, records


@pytest.mark.anyio
async def test_it_has_one_record_with_the_text_and_the_time() -> None:
    payload = bodies.test_request("A test.", at=1_700_000_000_123)
    logs = await reading.read(payload, json=False)
    assert (logs.records, logs.groups[0].attributes) == (1, {"service.name": "reconciler"})
    assert [*bodies.body_fragments(payload)] == [[b'"A test."']]
    [record] = records(parsed(payload))
    assert record.time_unix_nano == record.observed_time_unix_nano == 1_700_000_000_123_000_000
    assert (record.severity_number, record.severity_text) == (9, "INFO")
