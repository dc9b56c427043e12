"""Rendering: what a reader of the service gets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.documents.values import Value
from reconciler.resources import canonical, judging, preparing, rendering
from reconciler.resources.rendering import Identity
from tests.resources.documents import API_VERSIONS, EXAMPLES, VALUES

IDENTITY = Identity(id="01JD7Z", version=3, date_modified="2026-11-21T06:12:00.123Z")


def prepare(document: Value) -> preparing.Prepared:
    judged = judging.judge(document, api_versions=API_VERSIONS)
    assert judged.resource is not None
    return preparing.prepare(judged.resource, hmac_key=b"k" * 32)


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

    assert parsed == json.loads(prepared.masked)
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


def test_what_was_exported_can_be_applied_again() -> None:
    document: Value = {"apiVersion": "service/v1", "kind": "Fleet", "metadata": {"name": "edge"}}
    prepared = prepare(document)
    exported = rendering.with_status(rendering.body(prepared, identity=IDENTITY), b'{"latest":true}')

    assert prepare(json.loads(exported)).digest == prepared.digest
