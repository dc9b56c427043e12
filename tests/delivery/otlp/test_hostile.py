"""Requests that no exporter sends: each row is refused, with the answer to the sender."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from reconciler.delivery.otlp import reading
from reconciler.delivery.otlp.models import MalformedRequest, RequestLimits, RequestTooLarge
from tests.delivery.otlp.requests import field, group, nested, request, varint

LIMITS = RequestLimits(bytes=8 << 20, records=10_000)


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
KEYS = b'{"idKeys":[' + b'"",' * 9_999 + b'""]}'
MALFORMED = "no ExportLogsServiceRequest in protobuf"
AT = r"no ExportLogsServiceRequest in JSON: resourceLogs\[0\]\.scopeLogs\[0\]\.logRecords\[0\]"


def malformed(what: str, body: bytes, words: str = MALFORMED, *, json: bool = False) -> Row:
    return Row(what, body, MalformedRequest, words, json)


def too_large(what: str, body: bytes, words: str, *, json: bool = False) -> Row:
    return Row(what, body, RequestTooLarge, words, json)


ROWS = [
    malformed("JSON sent as protobuf", b'{"resourceLogs": []}'),
    malformed("a tag alone", b"\x0a"),
    malformed("a length beyond the end", b"\x0a\x05abcd"),
    malformed("a length of 2^63", b"\x0a" + varint(2**63)),
    malformed("an inner length beyond its message", field(0x0A, b"\x12\x09") + b"123456789"),
    malformed("a record beyond its scope", field(0x0A, field(0x12, b"\x12\x03a")) + b"bc"),
    malformed("a large record beyond its scope", field(0x0A, field(0x12, b"\x12\xff\xff\x03")) + b"x" * 99_999),
    malformed("an integer of eleven bytes", b"\x0a" + b"\x80" * 10 + b"\x01"),
    malformed("an integer without end", b"\x80" * 5_000),
    malformed("the field number 0", b"\x02\x00"),
    malformed("a wire type that nobody has", b"\x0f"),
    malformed("cut off by one byte", SOUND[:-1]),
    malformed("a record that is none", record(b"\xff\xff")),
    malformed("a body that is not UTF-8", record(field(0x2A, field(0x0A, b"\xff"))), "not UTF-8"),
    malformed("a resource that is not UTF-8", field(0x0A, field(0x0A, field(0x0A, field(0x0A, b"\xff")))), "UTF-8"),
    malformed("a schema that is not UTF-8", field(0x0A, field(0x1A, b"\xff")), "UTF-8"),
    malformed("a schema that is not UTF-8 of a large group", field(0x0A, LARGE + field(0x1A, b"\xff")), "UTF-8"),
    malformed(
        "a resource that is not UTF-8 of a large group",
        field(0x0A, LARGE + field(0x0A, field(0x0A, field(0x0A, b"\xff")))),
        "UTF-8",
    ),
    malformed(
        "a scope that is not UTF-8, behind much",
        field(0x0A, LARGE + field(0x12, field(0x0A, field(0x0A, b"\xff")))),
        "UTF-8",
    ),
    malformed("values nested 60 deep", record(field(0x2A, nested(60))), "too deep"),
    malformed(
        "values nested too deep in a large scope",
        field(0x0A, field(0x12, MANY + field(0x12, field(0x2A, nested(60))))),
        "too deep",
    ),
    malformed("values nested 100,000 deep", record(field(0x2A, b"\x2a" * 50_000))),
    too_large(
        "a record of two million empty values",
        record(field(0x2A, field(0x2A, b"\x0a\x00" * 2_000_000))),
        "more than 50,000 fields",
    ),
    too_large("a record of a million attributes", record(b"\x32\x00" * 1_000_000), "50,000 fields"),
    too_large(
        "a scope of a million attributes",
        field(0x0A, field(0x12, field(0x0A, b"\x1a\x00" * 1_000_000))),
        "50,000 fields",
    ),
    too_large(
        "a scope whose one attribute has a million values",
        field(0x0A, field(0x12, field(0x0A, field(0x1A, field(0x12, field(0x2A, b"\x0a\x00" * 1_000_000)))))),
        "50,000 fields",
    ),
    too_large("a resource of a million attributes", field(0x0A, field(0x0A, b"\x0a\x00" * 1_000_000)), "50,000 fields"),
    too_large("four million empty resources", b"\x0a\x00" * 4_000_000, "20,000 resources and scopes"),
    too_large("four million empty scopes", field(0x0A, b"\x12\x00" * 4_000_000), "20,000 resources and scopes"),
    too_large("four million empty records", field(0x0A, field(0x12, b"\x12\x00" * 4_000_000)), "10,000 log records"),
    malformed("protobuf sent as JSON", SOUND, r"in JSON: JSON is malformed: invalid character \(byte 1\)", json=True),
    malformed("no JSON at all", b"", "in JSON: Input data was truncated", json=True),
    malformed("JSON that is cut off", document("{}")[:-2], "truncated", json=True),
    malformed("more behind the JSON", b"{} {}", "trailing characters", json=True),
    malformed("JSON that is no object", b"[]", r"in JSON: Expected `object`, got `array`\.", json=True),
    malformed(
        "JSON that is not UTF-8", document('{"severityText":"%"}').replace(b"%", b"\xff"), "not UTF-8", json=True
    ),
    malformed(
        "a member of the wrong type",
        b'{"resourceLogs":[{"scopeLogs":5}]}',
        r"JSON: Expected `array \| null`, got `int` - at `\$.resourceLogs\[0\]\.scopeLogs`",
        json=True,
    ),
    malformed("a record that is null", document("null"), AT + ": Expected `object`, got `null`", json=True),
    malformed("a record that is text", document("{},5"), r"logRecords\[1\]: Expected `object`", json=True),
    malformed(
        "an id that is base64",
        document('{"traceId":"W47/95gDgQPSaYeBk0Ff7g=="}'),
        AT + ": traceId and spanId are hexadecimal digits, two for each byte",
        json=True,
    ),
    malformed("an id of odd length", document('{"spanId":"abc"}'), AT + ": traceId and spanId ", json=True),
    malformed("an id with spaces", document('{"spanId":"ab cd"}'), AT + ": traceId and spanId ", json=True),
    malformed(
        "an integer over 64 bits",
        document('{"body":{"intValue":"9223372036854775808"}}'),
        AT + ".*intValue.*out of range",
        json=True,
    ),
    malformed("a time before 1970", document('{"timeUnixNano":"-1"}'), AT + ".*timeUnixNano.*out of range", json=True),
    malformed("an integer with a fraction", document('{"body":{"intValue":1.5}}'), "body", json=True),
    malformed(
        "an integer of a million digits",
        document('{"body":{"intValue":"' + "9" * 1_000_000 + '"}}'),
        "body",
        json=True,
    ),
    malformed("a truth as an integer", document('{"body":{"intValue":true}}'), "Bool value True", json=True),
    malformed(
        "a double that is text", document('{"body":{"doubleValue":"nan"}}'), "body|too large|out of range", json=True
    ),
    malformed(
        "a double of a million digits",
        document('{"body":{"doubleValue":' + "9" * 1_000 + "}}"),
        "body|too large|out of range",
        json=True,
    ),
    malformed(
        "half of a pair of surrogates", document(r'{"body":{"stringValue":"\ud800"}}'), "malformed|truncated", json=True
    ),
    malformed(
        "two members of one value",
        document('{"body":{"stringValue":"a","intValue":1}}'),
        AT + ".*multiple",
        json=True,
    ),
    malformed(
        "something wrong deep inside",
        document(
            '{"attributes":[{"key":"a"},{"key":"b","value":{"kvlistValue":{"values":[{"key":"c","value":'
            '{"arrayValue":{"values":[{},{"intValue":"x"}]}}}]}}}]}'
        ),
        AT + ".*intValue",
        json=True,
    ),
    malformed(
        "JSON values nested 60 deep",
        document('{"body":' + '{"arrayValue":{"values":[' * 60 + "]}}" * 60 + "}"),
        "too deep",
        json=True,
    ),
    malformed(
        "JSON values nested 110 deep",
        document('{"body":' + '{"arrayValue":{"values":[' * 110 + "]}}" * 110 + "}"),
        "too deep",
        json=True,
    ),
    malformed(
        "unknown JSON nested 100,000 deep", b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too deep", json=True
    ),
    too_large("10,001 records in JSON", document(",".join(["{}"] * 10_001)), "10,000 log records", json=True),
    too_large(
        "a million empty resources in JSON",
        b'{"resourceLogs":[' + b"{}," * 499_999 + b"{}]}",
        "20,000 resources and scopes",
        json=True,
    ),
    too_large(
        "a JSON record of a million empty values",
        document('{"body":{"arrayValue":{"values":[' + "{}," * 499_999 + "{}]}}}"),
        "50,000 fields",
        json=True,
    ),
    too_large(
        "an entity of a million keys", field(0x0A, field(0x0A, field(0x1A, b"\x1a\x00" * 1_000_000))), "50,000 fields"
    ),
    too_large(
        "a million keys of entities in JSON",
        b'{"resourceLogs":[{"resource":{"entityRefs":[' + b",".join([KEYS] * 100) + b"]}}]}",
        "50,000 fields",
        json=True,
    ),
    too_large(
        "a million empty scopes in JSON",
        b'{"resourceLogs":[{"scopeLogs":[' + b"{}," * 499_999 + b"{}]}]}",
        "20,000 resources and scopes",
        json=True,
    ),
    too_large("a million empty records in JSON", document("{}," * 499_999 + "{}"), "10,000 log records", json=True),
    too_large(
        "a million attributes without a value in JSON",
        b'{"resourceLogs":[{"resource":{"attributes":[' + b"{}," * 499_999 + b"{}]}}]}",
        "50,000 fields",
        json=True,
    ),
    too_large(
        "a million entities in JSON",
        b'{"resourceLogs":[{"resource":{"entityRefs":[' + b"{}," * 499_999 + b"{}]}}]}",
        "50,000 fields",
        json=True,
    ),
]


@pytest.mark.anyio
@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_it_is_refused(row: Row) -> None:
    with pytest.raises(row.refusal, match=row.words) as refused:
        await reading.read(row.body, json=row.json, limits=LIMITS)
    assert len(str(refused.value)) < 400


def filled(before: bytes, each: bytes, after: bytes) -> bytes:
    """Eight MiB."""
    return before + b",".join([each] * ((LIMITS.bytes - len(before) - len(after)) // (len(each) + 1))) + after


def filling(*tags: int, each: bytes) -> bytes:
    """As much in protobuf, inside of messages with these tags."""
    body = each * ((LIMITS.bytes - 64) // len(each))
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


@pytest.mark.anyio
@pytest.mark.parametrize("what", LONG)
async def test_nothing_holds_the_loop(what: str) -> None:
    body = LONG[what]()
    reads = asyncio.ensure_future(reading.read(body, json=what.startswith("JSON"), limits=LIMITS))
    longest, before = 0.0, time.perf_counter()
    while not reads.done():
        await asyncio.sleep(0)
        longest, before = max(longest, time.perf_counter() - before), time.perf_counter()
    with contextlib.suppress(MalformedRequest, RequestTooLarge):
        await reads
    assert longest < 2.0  # seconds, many times what it takes: one call of a parser holds the interpreter
