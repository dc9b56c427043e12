"""Senders are answered in messages of OTLP, in their own encoding."""

import json

import pytest
from google.protobuf import json_format
from google.rpc.code_pb2 import Code  # type: ignore[import-untyped]
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from reconciler.delivery.otlp import models
from reconciler.delivery.otlp.models import OtlpAnswer

NAMES = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 405: "UNIMPLEMENTED",
    413: "RESOURCE_EXHAUSTED", 415: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL", 503: "UNAVAILABLE", 418: "INVALID_ARGUMENT", 599: "INTERNAL",
}  # fmt: skip


def test_success_is_an_empty_response() -> None:
    assert models.success_answer(json=False) == OtlpAnswer(b"", "application/x-protobuf")
    assert models.success_answer(json=True) == OtlpAnswer(b"{}", "application/json")
    assert models.success_answer(json=False).body == ExportLogsServiceResponse().SerializeToString()


def test_partial_success_tells_how_many_and_why() -> None:
    binary = models.partial_success_answer(rejected=2**40, message="No destination takes “them”.", json=False)
    text = models.partial_success_answer(rejected=2**40, message="No destination takes “them”.", json=True)
    message = ExportLogsServiceResponse.FromString(binary.body)
    assert message.partial_success.rejected_log_records == 2**40
    assert message.partial_success.error_message == "No destination takes “them”."
    assert json_format.Parse(text.body, ExportLogsServiceResponse()) == message
    assert json.loads(text.body)["partialSuccess"]["rejectedLogRecords"] == str(2**40)
    assert (binary.media_type, text.media_type) == ("application/x-protobuf", "application/json")


@pytest.mark.parametrize("status", NAMES)
@pytest.mark.parametrize("retry_after", [None, 0.0, 2.1, 30.0])
def test_failure_is_a_status_in_either_encoding(status: int, retry_after: float | None) -> None:
    binary = models.failure_answer(status, "It failed; try “again”.", json=False, retry_after=retry_after)
    text = models.failure_answer(status, "It failed; try “again”.", json=True, retry_after=retry_after)
    message = Status.FromString(binary.body)
    assert (Code.Name(message.code), message.message) == (NAMES[status], "It failed; try “again”.")
    assert json_format.Parse(text.body, Status()) == message
    assert (binary.media_type, text.media_type) == ("application/x-protobuf", "application/json")
    if retry_after is None:
        assert not message.details
    else:
        info = RetryInfo()
        assert message.details[0].Unpack(info)
        assert info.retry_delay.ToSeconds() == {0.0: 0, 2.1: 3, 30.0: 30}[retry_after]
