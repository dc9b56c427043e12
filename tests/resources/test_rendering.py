"""Rendering: what a reader of the service gets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.documents.values import Value
from reconciler.resources import canonical, drafts, fitting, judging, preparing, rendering
from reconciler.resources.rendering import Identity
from reconciler.resources.resource import Resource
from tests.resources.documents import API_VERSIONS, EXAMPLES, VALUES
from tests.resources.lookups import look_up

KEY = b"k" * 32
BOUND = preparing.Bound(project="default", resource_id="01JD7Z", version=3)
IDENTITY = Identity(id="01JD7Z", version=3, date_modified="2026-11-21T06:12:00.123Z")


def resource_of(document: Value) -> Resource:
    judged = judging.judge(document, api_versions=API_VERSIONS)
    assert judged.resource is not None
    return judged.resource


def prepare(document: Value) -> preparing.Prepared:
    owned = resource_of(document).owned
    return preparing.prepare(owned, fitting.fit(owned, look_up).secrets, hmac_key=KEY, bound=BOUND)


def test_a_body_is_masked_and_carries_the_server_s_metadata_and_no_status() -> None:
    prepared = prepare(
        {
            "status": {"latest": False},
            "spec": {"type": "webhook", "parameters": [{"value": {"A": "secret"}, "name": "headers"}]},
            "metadata": {"version": 99, "name": "siem", "id": "proposed", "labels": None},
            "kind": "Destination",
            "apiVersion": "service/v1",
        }
    )

    assert rendering.body(prepared, identity=IDENTITY) == (
        b'{"apiVersion":"service/v1","kind":"Destination",'
        b'"metadata":{"dateModified":"2026-11-21T06:12:00.123Z","hash":"%b","id":"01JD7Z","labels":{},"name":"siem",'
        b'"version":3},'
        b'"spec":{"parameters":[{"name":"headers","value":{"A":"(sensitive)"}}],"type":"webhook"}}'
        % prepared.spec_hash.encode()
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["metadata"]["name"])
def test_a_body_parses_back_to_the_masked_resource(example: Value) -> None:
    prepared = prepare(example)
    parsed = json.loads(rendering.body(prepared, identity=IDENTITY))
    server = {key: parsed["metadata"].pop(key) for key in ("id", "hash", "version", "dateModified")}

    assert parsed == prepared.masked
    assert server == {
        "id": IDENTITY.id,
        "hash": prepared.spec_hash,
        "version": IDENTITY.version,
        "dateModified": IDENTITY.date_modified,
    }


@given(st.sampled_from(EXAMPLES), st.dictionaries(st.text(max_size=5), VALUES, max_size=3))
def test_with_its_status_a_body_is_still_canonical(example: Value, status: dict[str, Value]) -> None:
    body = rendering.body(prepare(example), identity=IDENTITY)

    joined = rendering.with_status(body, canonical.encode(status))

    assert joined == canonical.encode({**json.loads(body), "status": status})
    assert rendering.restated(rendering.with_status(body, b'{"latest":true}'), canonical.encode(status)) == joined


def test_what_was_exported_can_be_applied_again() -> None:
    document: Value = {"apiVersion": "service/v1", "kind": "Fleet", "metadata": {"name": "edge"}}
    prepared = prepare(document)
    status = rendering.status("Fleet", source=b'{"type":"api"}', incomplete=())
    exported = json.loads(rendering.with_status(rendering.body(prepared, identity=IDENTITY), status))

    again = drafts.draft(resource_of(exported), hmac_key=KEY)

    assert (again.digest, again.proposed_id) == (drafts.draft(resource_of(document), hmac_key=KEY).digest, IDENTITY.id)


SOURCE = b'{"actor":"key:a","type":"api"}'
LINES = ("/spec/parameters: `hostname` is required and has no default", 'a "quoted" line')
LISTED = rb'"incomplete":["/spec/parameters: `hostname` is required and has no default","a \"quoted\" line"],'

STATUSES = [
    ("Destination", (), b'{"latest":true,"source":%b}' % SOURCE),
    ("Destination", LINES, b'{%b"latest":true,"source":%b}' % (LISTED, SOURCE)),
    ("Configuration", (), b'{"latest":true,"ready":true,"source":%b}' % SOURCE),
    ("Configuration", LINES, b'{%b"latest":true,"ready":false,"source":%b}' % (LISTED, SOURCE)),
]


@pytest.mark.parametrize(("kind", "incomplete", "expected"), STATUSES)
def test_a_status_says_where_a_resource_is_from_and_what_is_missing_of_it(
    kind: str, incomplete: tuple[str, ...], expected: bytes
) -> None:
    status = rendering.status(kind, source=SOURCE, incomplete=incomplete)

    assert status == expected
    assert rendering.incomplete(status) == incomplete


@pytest.mark.parametrize("before", [(), ("another line",), LINES])
@pytest.mark.parametrize(("kind", "after", "expected"), STATUSES)
def test_a_status_with_another_list_of_what_is_missing_is_the_status_of_that_list(
    kind: str, before: tuple[str, ...], after: tuple[str, ...], expected: bytes
) -> None:
    status = rendering.status(kind, source=SOURCE, incomplete=before)

    assert rendering.with_incomplete(kind, status, after) == expected


def test_what_a_status_says_beside_that_stays() -> None:
    status = b'{"delivery":{"state":"idle"},"incomplete":["x"],"latest":true,"source":{}}'

    assert rendering.with_incomplete("Destination", status, ()) == (
        b'{"delivery":{"state":"idle"},"latest":true,"source":{}}'
    )
    assert rendering.with_source(status, {"type": "git", "line": 3}) == (
        b'{"delivery":{"state":"idle"},"incomplete":["x"],"latest":true,"source":{"line":3,"type":"git"}}'
    )


@pytest.mark.parametrize("status", [b'{"latest":true}', b'{"incomplete":[]}', b'{"incomplete":null}'])
def test_a_status_that_lists_nothing_misses_nothing(status: bytes) -> None:
    assert rendering.incomplete(status) == ()
