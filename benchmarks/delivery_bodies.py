"""Export requests as OpenTelemetry's own library encodes them, and the JSON that is to come out: seeded, of one size.

A record is 190 bytes in the JSON array that is delivered, its comma among them, and holds the sink's mark once. Around
its body stands what a collector sends along: times, severity, two attributes, and a resource.
"""

import random

import orjson
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from benchmarks.sink import MARK

SIZE = 190  # bytes of a record in the array
NANOSECONDS = 1_700_000_000_000_000_000
LETTERS = "abcdefghijklmnopqrstuvwxyz     "


def texts(records: int, *, seed: int = 1) -> bytes:
    """A request whose records are lines of text."""
    source = random.Random(seed)  # noqa: S311 - a reproducible corpus, no secret
    return _request([AnyValue(string_value=_line(number, source)) for number in range(records)])


def maps(records: int, *, seed: int = 1) -> bytes:
    """A request whose records are maps of eight keys: four texts, two integers, a fraction, a truth."""
    source = random.Random(seed)  # noqa: S311 - a reproducible corpus, no secret
    return _request([_map(number, source) for number in range(records)])


def fragments(records: int, *, seed: int = 1) -> list[bytes]:
    """Return the body in which `texts` are delivered, a JSON string for each record."""
    source = random.Random(seed)  # noqa: S311 - a reproducible corpus, no secret
    return [orjson.dumps(_line(number, source)) for number in range(records)]


def _line(number: int, source: random.Random) -> str:
    head = f"{MARK.decode()} {number:06d} "
    # Two quotes and a comma are the array's.
    return head + "".join(source.choices(LETTERS, k=SIZE - 3 - len(head)))


def _map(number: int, source: random.Random) -> AnyValue:
    texts = {
        "message": f"{MARK.decode()} {number:06d}",
        "method": source.choice(("GET", "POST", "DELETE")),
        "path": "/v1/" + "".join(source.choices(LETTERS[:26], k=24)),
        "client": f"192.0.2.{source.randrange(256)}",
    }
    values = {name: AnyValue(string_value=text) for name, text in texts.items()}
    values["status"] = AnyValue(int_value=source.choice((200, 201, 404, 503)))
    values["bytes"] = AnyValue(int_value=source.randrange(1 << 40))
    values["seconds"] = AnyValue(double_value=source.random())
    values["cached"] = AnyValue(bool_value=source.random() < 0.5)
    return AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key=key, value=value) for key, value in values.items()]))


def _request(bodies: list[AnyValue]) -> bytes:
    records = [
        LogRecord(
            time_unix_nano=NANOSECONDS + number,
            observed_time_unix_nano=NANOSECONDS + number,
            severity_number=9,  # type: ignore[arg-type]  # INFO
            severity_text="INFO",
            body=body,
            attributes=[_text("log.file.name", "app.log"), _text("thread", "main")],
        )
        for number, body in enumerate(bodies)
    ]
    resource = Resource(attributes=[_text("service.name", "checkout"), _text("host.name", "web-1")])
    group = ResourceLogs(resource=resource, scope_logs=[ScopeLogs(log_records=records)])
    return ExportLogsServiceRequest(resource_logs=[group]).SerializeToString()


def _text(key: str, text: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=text))
