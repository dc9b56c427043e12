"""What no exporter sends: each row is refused, and what the sender is told."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from reconciler.delivery.otlp import reading
from reconciler.delivery.otlp.models import MOST_BYTES, MalformedRequest, RequestTooLarge
from tests.delivery.otlp.requests import field, group, nested, request, varint


@dataclass(frozen=True)
class Row:
    what: str
    body: bytes
    refusal: type[Exception]
    words: str
    json: bool = False

    def __str__(self) -> str:
        return self.what


def record(content: bytes) -> bytes:
    return field(0x0A, field(0x12, field(0x12, content)))


def document(text: str) -> bytes:
    return b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[' + text.encode() + b"]}]}]}"


MANY = field(0x12, field(0x2A, field(0x0A, b"x" * 1_000))) * 100  # of a ScopeLogs
LARGE = field(0x12, MANY)  # of a ResourceLogs
SOUND = request(group("a"))
OTHERS = "more than 100,000 fields beside its log records, such as schema URLs; leave out those that "
KEYS = b'{"idKeys":[' + b'"",' * 9_999 + b'""]}'
MALFORMED = "no ExportLogsServiceRequest in protobuf"
AT = r"no ExportLogsServiceRequest in JSON: resourceLogs\[0\]\.scopeLogs\[0\]\.logRecords\[0\]"
ROWS = [
    Row("JSON sent as protobuf", b'{"resourceLogs": []}', MalformedRequest, MALFORMED),
    Row("a tag alone", b"\x0a", MalformedRequest, MALFORMED),
    Row("a length beyond the end", b"\x0a\x05abcd", MalformedRequest, MALFORMED),
    Row("a length of 2^63", b"\x0a" + varint(2**63), MalformedRequest, MALFORMED),
    Row("an inner length beyond its message", field(0x0A, b"\x12\x09") + b"123456789", MalformedRequest, MALFORMED),
    Row("a record beyond its scope", field(0x0A, field(0x12, b"\x12\x03a")) + b"bc", MalformedRequest, MALFORMED),
    Row(
        "a large record beyond its scope",
        field(0x0A, field(0x12, b"\x12\xff\xff\x03")) + b"x" * 99_999,
        MalformedRequest,
        MALFORMED,
    ),
    Row("an integer of eleven bytes", b"\x0a" + b"\x80" * 10 + b"\x01", MalformedRequest, MALFORMED),
    Row("an integer without end", b"\x80" * 5_000, MalformedRequest, MALFORMED),
    Row("the field number 0", b"\x02\x00", MalformedRequest, MALFORMED),
    Row("a group", b"\x0b\x0c", MalformedRequest, MALFORMED),
    Row("a wire type that nobody has", b"\x0f", MalformedRequest, MALFORMED),
    Row("cut off by one byte", SOUND[:-1], MalformedRequest, MALFORMED),
    Row("a record that is none", record(b"\xff\xff"), MalformedRequest, MALFORMED),
    Row("a body that is not UTF-8", record(field(0x2A, field(0x0A, b"\xff"))), MalformedRequest, "not UTF-8"),
    Row(
        "a resource that is not UTF-8",
        field(0x0A, field(0x0A, field(0x0A, field(0x0A, b"\xff")))),
        MalformedRequest,
        "UTF-8",
    ),
    Row("a schema that is not UTF-8", field(0x0A, field(0x1A, b"\xff")), MalformedRequest, "UTF-8"),
    Row(
        "a schema that is not UTF-8 of a large group",
        field(0x0A, LARGE + field(0x1A, b"\xff")),
        MalformedRequest,
        "UTF-8",
    ),
    Row(
        "a resource that is not UTF-8 of a large group",
        field(0x0A, LARGE + field(0x0A, field(0x0A, field(0x0A, b"\xff")))),
        MalformedRequest,
        "UTF-8",
    ),
    Row(
        "a scope that is not UTF-8, behind much",
        field(0x0A, LARGE + field(0x12, field(0x0A, field(0x0A, b"\xff")))),
        MalformedRequest,
        "UTF-8",
    ),
    Row("values nested 60 deep", record(field(0x2A, nested(60))), MalformedRequest, "too deep"),
    Row(
        "values nested 49 deep, a level too many where they are",
        record(field(0x2A, nested(49))),
        MalformedRequest,
        "too deep",
    ),
    Row(
        "values nested too deep in a large scope",
        field(0x0A, field(0x12, MANY + field(0x12, field(0x2A, nested(49))))),
        MalformedRequest,
        "too deep",
    ),
    Row("values nested 100,000 deep", record(field(0x2A, b"\x2a" * 50_000)), MalformedRequest, MALFORMED),
    Row(
        "a record of two million empty values",
        record(field(0x2A, field(0x2A, b"\x0a\x00" * 2_000_000))),
        RequestTooLarge,
        "more than 50,000 fields",
    ),
    Row("a record of a million attributes", record(b"\x32\x00" * 1_000_000), RequestTooLarge, "50,000 fields"),
    Row(
        "a scope of a million attributes",
        field(0x0A, field(0x12, field(0x0A, b"\x1a\x00" * 1_000_000))),
        RequestTooLarge,
        "50,000 fields",
    ),
    Row(
        "a scope whose one attribute has a million values",
        field(0x0A, field(0x12, field(0x0A, field(0x1A, field(0x12, field(0x2A, b"\x0a\x00" * 1_000_000)))))),
        RequestTooLarge,
        "50,000 fields",
    ),
    Row(
        "a resource of a million attributes",
        field(0x0A, field(0x0A, b"\x0a\x00" * 1_000_000)),
        RequestTooLarge,
        "50,000 fields",
    ),
    Row("four million empty resources", b"\x0a\x00" * 4_000_000, RequestTooLarge, "20,000 resources and scopes"),
    Row(
        "four million empty scopes",
        field(0x0A, b"\x12\x00" * 4_000_000),
        RequestTooLarge,
        "20,000 resources and scopes",
    ),
    Row(
        "four million empty records",
        field(0x0A, field(0x12, b"\x12\x00" * 4_000_000)),
        RequestTooLarge,
        "10,000 log records",
    ),
    Row(
        "protobuf sent as JSON",
        SOUND,
        MalformedRequest,
        r"in JSON: JSON is malformed: invalid character \(byte 1\)",
        True,
    ),
    Row("no JSON at all", b"", MalformedRequest, "in JSON: Input data was truncated", True),
    Row("JSON that is cut off", document("{}")[:-2], MalformedRequest, "truncated", True),
    Row("more behind the JSON", b"{} {}", MalformedRequest, "trailing characters", True),
    Row("JSON that is no object", b"[]", MalformedRequest, r"in JSON: Expected `object`, got `array`\.", True),
    Row(
        "JSON that is not UTF-8",
        document('{"severityText":"%"}').replace(b"%", b"\xff"),
        MalformedRequest,
        "not UTF-8",
        True,
    ),
    Row(
        "a member of the wrong type",
        b'{"resourceLogs":[{"scopeLogs":5}]}',
        MalformedRequest,
        r"JSON: resourceLogs\[0\]\.scopeLogs: Expected `array \| null`, got `int`",
        True,
    ),
    Row("a record that is null", document("null"), MalformedRequest, AT + ": Expected `object`, got `null`", True),
    Row("a record that is text", document("{},5"), MalformedRequest, r"logRecords\[1\]: Expected `object`", True),
    Row(
        "an id that is base64",
        document('{"traceId":"W47/95gDgQPSaYeBk0Ff7g=="}'),
        MalformedRequest,
        AT + r"\.traceId: expected "
        "hexadecimal digits, two for each byte",
        True,
    ),
    Row("an id of odd length", document('{"spanId":"abc"}'), MalformedRequest, AT + r"\.spanId: ", True),
    Row("an id with spaces", document('{"spanId":"ab cd"}'), MalformedRequest, AT + r"\.spanId: ", True),
    Row(
        "a severity by its name",
        document('{"severityNumber":"SEVERITY_NUMBER_INFO"}'),
        MalformedRequest,
        AT + r"\.severityNumber: expected an integer",
        True,
    ),
    Row(
        "an integer over 64 bits",
        document('{"body":{"intValue":"9223372036854775808"}}'),
        MalformedRequest,
        AT + r"\.body\.intValue: expected an integer from -9223372036854775808 to 9223372036854775807",
        True,
    ),
    Row("a time before 1970", document('{"timeUnixNano":"-1"}'), MalformedRequest, AT + r"\.timeUnixNano: ", True),
    Row(
        "an integer with a fraction", document('{"body":{"intValue":1.5}}'), MalformedRequest, r"body\.intValue: ", True
    ),
    Row(
        "an integer of a million digits",
        document('{"body":{"intValue":"' + "9" * 1_000_000 + '"}}'),
        MalformedRequest,
        r"body\.intValue: ",
        True,
    ),
    Row(
        "a truth as an integer",
        document('{"body":{"intValue":true}}'),
        MalformedRequest,
        r"body\.intValue: Expected",
        True,
    ),
    Row(
        "a double that is text",
        document('{"body":{"doubleValue":"nan"}}'),
        MalformedRequest,
        r"body\.doubleValue: ",
        True,
    ),
    Row(
        "a double of a million digits",
        document('{"body":{"doubleValue":' + "9" * 1_000 + "}}"),
        MalformedRequest,
        r"body\.doubleValue: ",
        True,
    ),
    Row(
        "bytes that are no base64",
        document('{"body":{"bytesValue":"%%%%"}}'),
        MalformedRequest,
        r"body\.bytesValue: expected b",
        True,
    ),
    Row(
        "half of a pair of surrogates",
        document(r'{"body":{"stringValue":"\ud800"}}'),
        MalformedRequest,
        "malformed|truncated",
        True,
    ),
    Row(
        "two members of one value",
        document('{"body":{"stringValue":"a","intValue":1}}'),
        MalformedRequest,
        AT + r"\.body: a value has more than one of its members",
        True,
    ),
    Row(
        "something wrong deep inside",
        document(
            '{"attributes":[{"key":"a"},{"key":"b","value":{"kvlistValue":{"values":[{"key":"c","value":'
            '{"arrayValue":{"values":[{},{"intValue":"x"}]}}}]}}}]}'
        ),
        MalformedRequest,
        AT + r"\.attributes\[1\]\.value\.kvlistValue\.values\[0\]\.value\.arrayValue\.values\[1\]\.intValue: ",
        True,
    ),
    Row(
        "JSON values nested 60 deep",
        document('{"body":' + '{"arrayValue":{"values":[' * 60 + "]}}" * 60 + "}"),
        MalformedRequest,
        "too deep",
        True,
    ),
    Row(
        "JSON values nested 110 deep",
        document('{"body":' + '{"arrayValue":{"values":[' * 110 + "]}}" * 110 + "}"),
        MalformedRequest,
        "nested",
        True,
    ),
    Row(
        "unknown JSON nested 100,000 deep",
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        MalformedRequest,
        "too deep",
        True,
    ),
    Row("10,001 records in JSON", document(",".join(["{}"] * 10_001)), RequestTooLarge, "10,000 log records", True),
    Row(
        "a million empty resources in JSON",
        b'{"resourceLogs":[' + b"{}," * 999_999 + b"{}]}",
        RequestTooLarge,
        "20,000 resources and scopes",
        True,
    ),
    Row(
        "a JSON record of a million empty values",
        document('{"body":{"arrayValue":{"values":[' + "{}," * 999_999 + "{}]}}}"),
        RequestTooLarge,
        "50,000 fields",
        True,
    ),
    Row("a million fields that nobody knows", b"\x78\x00" * 1_000_000, RequestTooLarge, OTHERS),
    Row("a million of them in a resource", field(0x0A, b"\x78\x00" * 1_000_000), RequestTooLarge, OTHERS),
    Row("a million of them in a scope", field(0x0A, field(0x12, b"\x78\x00" * 1_000_000)), RequestTooLarge, OTHERS),
    Row("a resource a million times", field(0x0A, b"\x0a\x00" * 1_000_000), RequestTooLarge, OTHERS),
    Row("a scope a million times", field(0x0A, field(0x12, b"\x0a\x00" * 1_000_000)), RequestTooLarge, OTHERS),
    Row(
        "an entity of a million keys",
        field(0x0A, field(0x0A, field(0x1A, b"\x1a\x00" * 1_000_000))),
        RequestTooLarge,
        "50,000 fields",
    ),
    Row(
        "a million keys of entities in JSON",
        b'{"resourceLogs":[{"resource":{"entityRefs":[' + b",".join([KEYS] * 100) + b"]}}]}",
        RequestTooLarge,
        "50,000 fields",
        True,
    ),
    Row(
        "a million empty scopes in JSON",
        b'{"resourceLogs":[{"scopeLogs":[' + b"{}," * 999_999 + b"{}]}]}",
        RequestTooLarge,
        "20,000 resources and scopes",
        True,
    ),
    Row(
        "a million empty records in JSON", document("{}," * 999_999 + "{}"), RequestTooLarge, "10,000 log records", True
    ),
    Row(
        "a million attributes without a value in JSON",
        b'{"resourceLogs":[{"resource":{"attributes":[' + b"{}," * 999_999 + b"{}]}}]}",
        RequestTooLarge,
        "50,000 fields",
        True,
    ),
    Row(
        "a million entities in JSON",
        b'{"resourceLogs":[{"resource":{"entityRefs":[' + b"{}," * 999_999 + b"{}]}}]}",
        RequestTooLarge,
        "50,000 fields",
        True,
    ),
]


@pytest.mark.anyio
@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_it_is_refused(row: Row) -> None:
    with pytest.raises(row.refusal, match=row.words) as refused:
        await reading.read(row.body, json=row.json)
    assert len(str(refused.value)) < 400


def filled(before: bytes, each: bytes, after: bytes) -> bytes:
    """Eight MiB."""
    return before + b",".join([each] * ((MOST_BYTES - len(before) - len(after)) // (len(each) + 1))) + after


def filling(*tags: int, each: bytes) -> bytes:
    """As much in protobuf, inside of messages with these tags."""
    body = each * ((MOST_BYTES - 64) // len(each))
    for tag in reversed(tags):
        body = field(tag, body)
    return body


SCOPES = b'{"resourceLogs":[{"scopeLogs":['
RECORD = SCOPES + b'{"logRecords":[{'
LONG: dict[str, Callable[[], bytes]] = {
    "JSON resources": partial(filled, b'{"resourceLogs":[', b"{}", b"]}"),
    "JSON scopes": partial(filled, SCOPES, b"{}", b"]}]}"),
    "JSON records": partial(filled, SCOPES + b'{"logRecords":[', b"{}", b"]}]}]}"),
    "JSON numbers for records": partial(filled, SCOPES + b'{"logRecords":[', b"1", b"]}]}]}"),
    "JSON attributes": partial(filled, RECORD + b'"attributes":[', b"{}", b"]}]}]}]}"),
    "JSON attributes of a resource": partial(
        filled, b'{"resourceLogs":[{"resource":{"attributes":[', b'{"value":{}}', b"]}}]}"
    ),
    "JSON values": partial(filled, RECORD + b'"body":{"arrayValue":{"values":[', b"{}", b"]}}}]}]}]}"),
    "JSON entities": partial(filled, b'{"resourceLogs":[{"resource":{"entityRefs":[', b"{}", b"]}}]}"),
    "JSON keys": partial(filled, b'{"resourceLogs":[{"resource":{"entityRefs":[{"idKeys":[', b'""', b"]}]}}]}"),
    "JSON that nobody knows": partial(filled, b'{"x":[', b"{}", b"]}"),
    "JSON of a record with as many values as it may": lambda: (
        SCOPES + b'{"logRecords":[{"attributes":[' + b",".join([b'{"value":{}}'] * 24_000) + b"]}]}]}]}"
    ),
    "unknown fields": partial(filling, each=b"\x78\x00"),
    "unknown fields of a resource": partial(filling, 0x0A, each=b"\x78\x00"),
    "unknown fields of a record": partial(filling, 0x0A, 0x12, 0x12, each=b"\x78\x00"),
    "many small resources of unknown fields": partial(filling, each=field(0x0A, b"\x78\x00" * 30_000)),
    "empty resources": partial(filling, each=b"\x0a\x00"),
    "bodies of a record": partial(filling, 0x0A, 0x12, 0x12, each=b"\x2a\x00"),
    "keys of an entity": partial(filling, 0x0A, 0x0A, 0x1A, each=b"\x1a\x00"),
}


@pytest.mark.parametrize("what", LONG)
def test_nothing_holds_the_loop(what: str) -> None:
    reads = reading.read(LONG[what](), json=what.startswith("JSON"))
    longest = 0.0
    while True:
        before = time.thread_time()
        try:
            reads.send(None)  # to the next place to pause
        except (StopIteration, MalformedRequest, RequestTooLarge):
            break
        finally:
            longest = max(longest, time.thread_time() - before)
    assert longest < 0.05  # seconds of processor time; twice to five times what it takes
