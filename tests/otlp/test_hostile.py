"""What no exporter sends: each row is refused, and what the sender is told."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from reconciler.otlp import reading
from reconciler.otlp.models import MOST_BYTES
from reconciler.otlp.refusals import Malformed, TooLarge
from tests.otlp.requests import field, group, nested, request, varint


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
    Row("JSON sent as protobuf", b'{"resourceLogs": []}', Malformed, MALFORMED),
    Row("a tag alone", b"\x0a", Malformed, MALFORMED),
    Row("a length beyond the end", b"\x0a\x05abcd", Malformed, MALFORMED),
    Row("a length of 2^63", b"\x0a" + varint(2**63), Malformed, MALFORMED),
    Row("an inner length beyond its message", field(0x0A, b"\x12\x09") + b"123456789", Malformed, MALFORMED),
    Row("a record beyond its scope", field(0x0A, field(0x12, b"\x12\x03a")) + b"bc", Malformed, MALFORMED),
    Row(
        "a large record beyond its scope",
        field(0x0A, field(0x12, b"\x12\xff\xff\x03")) + b"x" * 99_999,
        Malformed,
        MALFORMED,
    ),
    Row("an integer of eleven bytes", b"\x0a" + b"\x80" * 10 + b"\x01", Malformed, MALFORMED),
    Row("an integer without end", b"\x80" * 5_000, Malformed, MALFORMED),
    Row("the field number 0", b"\x02\x00", Malformed, MALFORMED),
    Row("a group", b"\x0b\x0c", Malformed, MALFORMED),
    Row("a wire type that nobody has", b"\x0f", Malformed, MALFORMED),
    Row("cut off by one byte", SOUND[:-1], Malformed, MALFORMED),
    Row("a record that is none", record(b"\xff\xff"), Malformed, MALFORMED),
    Row("a body that is not UTF-8", record(field(0x2A, field(0x0A, b"\xff"))), Malformed, "not UTF-8"),
    Row(
        "a resource that is not UTF-8", field(0x0A, field(0x0A, field(0x0A, field(0x0A, b"\xff")))), Malformed, "UTF-8"
    ),
    Row("a schema that is not UTF-8", field(0x0A, field(0x1A, b"\xff")), Malformed, "UTF-8"),
    Row("a schema that is not UTF-8 of a large group", field(0x0A, LARGE + field(0x1A, b"\xff")), Malformed, "UTF-8"),
    Row(
        "a resource that is not UTF-8 of a large group",
        field(0x0A, LARGE + field(0x0A, field(0x0A, field(0x0A, b"\xff")))),
        Malformed,
        "UTF-8",
    ),
    Row(
        "a scope that is not UTF-8, behind much",
        field(0x0A, LARGE + field(0x12, field(0x0A, field(0x0A, b"\xff")))),
        Malformed,
        "UTF-8",
    ),
    Row("values nested 60 deep", record(field(0x2A, nested(60))), Malformed, "too deep"),
    Row(
        "values nested 49 deep, a level too many where they are", record(field(0x2A, nested(49))), Malformed, "too deep"
    ),
    Row(
        "values nested too deep in a large scope",
        field(0x0A, field(0x12, MANY + field(0x12, field(0x2A, nested(49))))),
        Malformed,
        "too deep",
    ),
    Row("values nested 100,000 deep", record(field(0x2A, b"\x2a" * 50_000)), Malformed, MALFORMED),
    Row(
        "a record of two million empty values",
        record(field(0x2A, field(0x2A, b"\x0a\x00" * 2_000_000))),
        TooLarge,
        "more than 50,000 fields",
    ),
    Row("a record of a million attributes", record(b"\x32\x00" * 1_000_000), TooLarge, "50,000 fields"),
    Row(
        "a scope of a million attributes",
        field(0x0A, field(0x12, field(0x0A, b"\x1a\x00" * 1_000_000))),
        TooLarge,
        "50,000 fields",
    ),
    Row(
        "a scope whose one attribute has a million values",
        field(0x0A, field(0x12, field(0x0A, field(0x1A, field(0x12, field(0x2A, b"\x0a\x00" * 1_000_000)))))),
        TooLarge,
        "50,000 fields",
    ),
    Row(
        "a resource of a million attributes",
        field(0x0A, field(0x0A, b"\x0a\x00" * 1_000_000)),
        TooLarge,
        "50,000 fields",
    ),
    Row("four million empty resources", b"\x0a\x00" * 4_000_000, TooLarge, "20,000 resources and scopes"),
    Row("four million empty scopes", field(0x0A, b"\x12\x00" * 4_000_000), TooLarge, "20,000 resources and scopes"),
    Row(
        "four million empty records", field(0x0A, field(0x12, b"\x12\x00" * 4_000_000)), TooLarge, "10,000 log records"
    ),
    Row("protobuf sent as JSON", SOUND, Malformed, r"in JSON: JSON is malformed: invalid character \(byte 1\)", True),
    Row("no JSON at all", b"", Malformed, "in JSON: Input data was truncated", True),
    Row("JSON that is cut off", document("{}")[:-2], Malformed, "truncated", True),
    Row("more behind the JSON", b"{} {}", Malformed, "trailing characters", True),
    Row("JSON that is no object", b"[]", Malformed, r"in JSON: Expected `object`, got `array`\.", True),
    Row(
        "JSON that is not UTF-8", document('{"severityText":"%"}').replace(b"%", b"\xff"), Malformed, "not UTF-8", True
    ),
    Row(
        "a member of the wrong type",
        b'{"resourceLogs":[{"scopeLogs":5}]}',
        Malformed,
        r"JSON: resourceLogs\[0\]\.scopeLogs: Expected `array \| null`, got `int`",
        True,
    ),
    Row("a record that is null", document("null"), Malformed, AT + ": Expected `object`, got `null`", True),
    Row("a record that is text", document("{},5"), Malformed, r"logRecords\[1\]: Expected `object`", True),
    Row(
        "an id that is base64",
        document('{"traceId":"W47/95gDgQPSaYeBk0Ff7g=="}'),
        Malformed,
        AT + r"\.traceId: expected "
        "hexadecimal digits, two for each byte",
        True,
    ),
    Row("an id of odd length", document('{"spanId":"abc"}'), Malformed, AT + r"\.spanId: ", True),
    Row("an id with spaces", document('{"spanId":"ab cd"}'), Malformed, AT + r"\.spanId: ", True),
    Row(
        "a severity by its name",
        document('{"severityNumber":"SEVERITY_NUMBER_INFO"}'),
        Malformed,
        AT + r"\.severityNumber: expected an integer",
        True,
    ),
    Row(
        "an integer over 64 bits",
        document('{"body":{"intValue":"9223372036854775808"}}'),
        Malformed,
        AT + r"\.body\.intValue: expected an integer from -9223372036854775808 to 9223372036854775807",
        True,
    ),
    Row("a time before 1970", document('{"timeUnixNano":"-1"}'), Malformed, AT + r"\.timeUnixNano: ", True),
    Row("an integer with a fraction", document('{"body":{"intValue":1.5}}'), Malformed, r"body\.intValue: ", True),
    Row(
        "an integer of a million digits",
        document('{"body":{"intValue":"' + "9" * 1_000_000 + '"}}'),
        Malformed,
        r"body\.intValue: ",
        True,
    ),
    Row("a truth as an integer", document('{"body":{"intValue":true}}'), Malformed, r"body\.intValue: Expected", True),
    Row("a double that is text", document('{"body":{"doubleValue":"nan"}}'), Malformed, r"body\.doubleValue: ", True),
    Row(
        "a double of a million digits",
        document('{"body":{"doubleValue":' + "9" * 1_000 + "}}"),
        Malformed,
        r"body\.doubleValue: ",
        True,
    ),
    Row(
        "bytes that are no base64",
        document('{"body":{"bytesValue":"%%%%"}}'),
        Malformed,
        r"body\.bytesValue: expected b",
        True,
    ),
    Row(
        "half of a pair of surrogates",
        document(r'{"body":{"stringValue":"\ud800"}}'),
        Malformed,
        "malformed|truncated",
        True,
    ),
    Row(
        "two members of one value",
        document('{"body":{"stringValue":"a","intValue":1}}'),
        Malformed,
        AT + r"\.body: a value has more than one of its members",
        True,
    ),
    Row(
        "something wrong deep inside",
        document(
            '{"attributes":[{"key":"a"},{"key":"b","value":{"kvlistValue":{"values":[{"key":"c","value":'
            '{"arrayValue":{"values":[{},{"intValue":"x"}]}}}]}}}]}'
        ),
        Malformed,
        AT + r"\.attributes\[1\]\.value\.kvlistValue\.values\[0\]\.value\.arrayValue\.values\[1\]\.intValue: ",
        True,
    ),
    Row(
        "JSON values nested 60 deep",
        document('{"body":' + '{"arrayValue":{"values":[' * 60 + "]}}" * 60 + "}"),
        Malformed,
        "too deep",
        True,
    ),
    Row(
        "JSON values nested 110 deep",
        document('{"body":' + '{"arrayValue":{"values":[' * 110 + "]}}" * 110 + "}"),
        Malformed,
        "nested",
        True,
    ),
    Row(
        "unknown JSON nested 100,000 deep",
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        Malformed,
        "too deep",
        True,
    ),
    Row("10,001 records in JSON", document(",".join(["{}"] * 10_001)), TooLarge, "10,000 log records", True),
    Row(
        "a million empty resources in JSON",
        b'{"resourceLogs":[' + b"{}," * 999_999 + b"{}]}",
        TooLarge,
        "20,000 resources and scopes",
        True,
    ),
    Row(
        "a JSON record of a million empty values",
        document('{"body":{"arrayValue":{"values":[' + "{}," * 999_999 + "{}]}}}"),
        TooLarge,
        "50,000 fields",
        True,
    ),
    Row("a million fields that nobody knows", b"\x78\x00" * 1_000_000, TooLarge, OTHERS),
    Row("a million of them in a resource", field(0x0A, b"\x78\x00" * 1_000_000), TooLarge, OTHERS),
    Row("a million of them in a scope", field(0x0A, field(0x12, b"\x78\x00" * 1_000_000)), TooLarge, OTHERS),
    Row("a resource a million times", field(0x0A, b"\x0a\x00" * 1_000_000), TooLarge, OTHERS),
    Row("a scope a million times", field(0x0A, field(0x12, b"\x0a\x00" * 1_000_000)), TooLarge, OTHERS),
    Row(
        "an entity of a million keys",
        field(0x0A, field(0x0A, field(0x1A, b"\x1a\x00" * 1_000_000))),
        TooLarge,
        "50,000 fields",
    ),
    Row(
        "a million keys of entities in JSON",
        b'{"resourceLogs":[{"resource":{"entityRefs":[' + b",".join([KEYS] * 100) + b"]}}]}",
        TooLarge,
        "50,000 fields",
        True,
    ),
    Row(
        "a million empty scopes in JSON",
        b'{"resourceLogs":[{"scopeLogs":[' + b"{}," * 999_999 + b"{}]}]}",
        TooLarge,
        "20,000 resources and scopes",
        True,
    ),
    Row("a million empty records in JSON", document("{}," * 999_999 + "{}"), TooLarge, "10,000 log records", True),
    Row(
        "a million attributes without a value in JSON",
        b'{"resourceLogs":[{"resource":{"attributes":[' + b"{}," * 999_999 + b"{}]}}]}",
        TooLarge,
        "50,000 fields",
        True,
    ),
    Row(
        "a million entities in JSON",
        b'{"resourceLogs":[{"resource":{"entityRefs":[' + b"{}," * 999_999 + b"{}]}}]}",
        TooLarge,
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
        except (StopIteration, Malformed, TooLarge):
            break
        finally:
            longest = max(longest, time.thread_time() - before)
    assert longest < 0.05  # seconds of processor time; twice to five times what it takes
