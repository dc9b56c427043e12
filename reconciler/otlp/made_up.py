"""One record that nobody logged, to try a destination with.

Belongs here: its bytes. Does not: sending it.
"""

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource


def test_request(text: str, *, at: int) -> bytes:
    """An ExportLogsServiceRequest with one record whose body is the text. `at` is Unix milliseconds."""
    nanoseconds = at * 1_000_000
    record = LogRecord(
        time_unix_nano=nanoseconds,
        observed_time_unix_nano=nanoseconds,
        severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
        severity_text="INFO",
        body=AnyValue(string_value=text),
    )
    resource = Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value="reconciler"))])
    group = ResourceLogs(resource=resource, scope_logs=[ScopeLogs(log_records=[record])])
    return ExportLogsServiceRequest(resource_logs=[group]).SerializeToString()
