"""Apply and delete answer with one status per resource."""

import json
from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from reconciler.model.names import KINDS
from tests.api import parts
from tests.api.parts import Parts, destination

pytestmark = pytest.mark.anyio

POD = {"apiVersion": "service/v1", "kind": "Pod", "metadata": {"name": "x"}}
ALL_KINDS = ", ".join(f"`{kind.name}`" for kind in KINDS)
NO_KIND = f"/kind: is not a kind; the kinds are {ALL_KINDS}"
INVALID = {"resource": POD, "status": "invalid", "reason": NO_KIND}
SOURCE = {"type": "api", "actor": "key:SERVICE_API_KEY", "date": parts.AT}


async def apply(client: httpx2.AsyncClient, *resources: object, query: str = "") -> list[dict[str, Any]]:
    answer = await client.post(f"/v1/apply{query}", json={"resources": resources})
    assert answer.status_code == 202
    updates: list[dict[str, Any]] = answer.json()["updates"]
    return updates


async def delete(client: httpx2.AsyncClient, *items: object, query: str = "") -> dict[str, Any]:
    answer = await client.post(f"/v1/delete{query}", json=items)
    assert answer.status_code == 202
    body: dict[str, Any] = answer.json()
    return body


async def held(client: httpx2.AsyncClient) -> list[str]:
    resources = (await client.get("/v1/resources/destinations")).json()["resources"]
    return [resource["metadata"]["name"] for resource in resources]


def statuses(updates: list[dict[str, Any]]) -> list[str]:
    return [update["status"] for update in updates]


async def test_a_created_resource_is_answered_as_it_is_stored(client: httpx2.AsyncClient) -> None:
    sent = destination("a", displayName="Audit", labels={"team": "a"})
    (update,) = await apply(client, sent)
    server = {name: update["resource"]["metadata"].pop(name) for name in ("id", "hash")}
    assert update == {
        "status": "created",
        "resource": {
            "apiVersion": "service/v1",
            "kind": "Destination",
            "metadata": {**sent["metadata"], "version": 1, "dateModified": parts.AT},
            "spec": sent["spec"],
            "status": {"latest": True, "source": SOURCE},
        },
    }
    assert (len(server["id"]), len(server["hash"])) == (26, 64)
    got = (await client.get("/v1/resources/Destination/a")).json()["resource"]
    assert {name: got["metadata"].pop(name) for name in server} == server
    assert got == update["resource"]


async def test_apply_answers_with_the_statuses_in_the_order_of_the_request(client: httpx2.AsyncClient) -> None:
    updates = await apply(client, destination("b"), POD, destination("a"))
    assert statuses(updates) == ["created", "invalid", "created"]
    assert updates[1] == INVALID
    for name, update in (("b", updates[0]), ("a", updates[2])):
        got = await client.get(f"/v1/resources/Destination/{name}")
        assert got.json() == {"resource": update["resource"]}


async def test_an_equal_resource_is_unchanged_and_shown_as_it_is_stored(
    client: httpx2.AsyncClient, everything: Parts
) -> None:
    (created,) = await apply(client, destination("a"))
    everything.clock.pass_(hours=1)
    assert await apply(client, destination("a")) == [{"resource": created["resource"], "status": "unchanged"}]
    versions = (await client.get("/v1/destinations/a/history")).json()["versions"]
    assert versions == [created["resource"]]


async def test_a_history_has_at_most_as_many_versions_as_are_asked_for(client: httpx2.AsyncClient) -> None:
    for number in range(1, 4):
        await apply(client, destination("a", labels={"number": str(number)}))
    path = "/v1/destinations/a/history"
    for limit, versions in ((1, [3]), (2, [3, 2]), (3, [3, 2, 1]), (1000, [3, 2, 1])):
        found = (await client.get(f"{path}?limit={limit}")).json()["versions"]
        assert [one["metadata"]["version"] for one in found] == versions
    for wrong in ("0", "1001", "x"):
        assert (await client.get(f"{path}?limit={wrong}")).status_code == 400
    assert (await client.get("/v1/destinations/none/history?limit=1")).status_code == 404


@pytest.mark.parametrize(
    "spelled",
    [
        {"labels": None},
        {"labels": {}, "hash": "0", "version": 7, "dateModified": "yesterday", "id": "another"},
    ],
)
async def test_null_labels_and_the_servers_own_keys_make_no_difference(
    client: httpx2.AsyncClient, spelled: dict[str, Any]
) -> None:
    (created,) = await apply(client, destination("a", labels={}))
    again = destination("a", **spelled) | {"status": {"latest": False}}
    assert await apply(client, again) == [{"resource": created["resource"], "status": "unchanged"}]


async def test_a_null_spec_is_an_empty_one(client: httpx2.AsyncClient) -> None:
    version = {"apiVersion": "service/v1", "kind": "AgentVersion", "metadata": {"name": "a"}}
    specs: list[dict[str, Any]] = [{}, {"spec": None}, {"spec": {}}]
    updates = [(await apply(client, version | spec))[0] for spec in specs]
    assert statuses(updates) == ["created", "unchanged", "unchanged"]
    assert updates[0]["resource"]["spec"] == {}


async def test_a_difference_is_configured_and_keeps_the_id(client: httpx2.AsyncClient, everything: Parts) -> None:
    (created,) = await apply(client, destination("a"))
    everything.clock.pass_(hours=1)
    (update,) = await apply(client, destination("a", displayName="Audit"))
    expected = json.loads(json.dumps(created["resource"]))
    modified = update["resource"]["metadata"]["dateModified"]
    expected["metadata"] |= {"displayName": "Audit", "version": 2, "dateModified": modified}
    expected["status"]["source"]["date"] = modified
    assert update == {"resource": expected, "status": "configured"}
    assert modified > created["resource"]["metadata"]["dateModified"]


async def test_a_reordered_list_is_a_difference(client: httpx2.AsyncClient) -> None:
    one, other = destination("a"), destination("a")
    one["spec"]["parameters"].append({"name": "port", "value": 1})
    other["spec"]["parameters"].insert(0, {"name": "port", "value": 1})
    assert statuses([*await apply(client, one), *await apply(client, other)]) == ["created", "configured"]


async def test_a_resource_that_comes_back_goes_on_from_its_last_version_with_a_new_id(
    client: httpx2.AsyncClient,
) -> None:
    (first,) = await apply(client, destination("a"))
    await delete(client, destination("a"))
    (again,) = await apply(client, destination("a"))
    assert again["status"] == "created"
    assert again["resource"]["metadata"]["version"] == 2
    assert again["resource"]["metadata"]["id"] != first["resource"]["metadata"]["id"]


async def test_an_invalid_resource_is_answered_as_it_was_sent_with_every_violation(client: httpx2.AsyncClient) -> None:
    (created,) = await apply(client, destination("a"))
    sent = {
        "apiVersion": "service/v2",
        "kind": "Destination",
        "metadata": {"name": "a", "colour": "red"},
        "spec": {"type": 7},
        "extra": 1,
    }
    (update,) = await apply(client, sent)
    reason = update.pop("reason").split("\n")
    assert update == {"resource": sent, "status": "invalid"}
    assert [line.split(" ", 1)[0] for line in reason] == ["/apiVersion:", "/metadata/colour:", "/spec/type:", "/extra:"]
    assert reason[0] == "/apiVersion: is not an API version of this service; it takes `service/v1`"
    assert reason[2] == "/spec/type: is not a string"
    assert (await client.get("/v1/resources/Destination/a")).json() == {"resource": created["resource"]}


@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        ({"apiVersion": "service/v1", "kind": "destination", "metadata": {"name": "a"}}, "write `Destination`"),
        ({"apiVersion": "service/v1", "kind": "Notification", "metadata": {"name": "a"}}, NO_KIND),
        (
            {"apiVersion": "service/v1", "kind": "Source", "metadata": {"name": "a b"}, "spec": {"type": "x"}},
            "/metadata",
        ),
        (
            {"apiVersion": "service/v1", "kind": "Source", "metadata": {}, "spec": {"type": "x"}},
            "/metadata/name: is requ",
        ),
        ({"kind": "Source", "metadata": {"name": "a"}, "spec": {"type": "x"}}, "/apiVersion: is required"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}, NO_KIND),
        ({}, "/kind: is required"),
    ],
)
async def test_what_is_wrong_with_one_resource_is_its_own_status(
    client: httpx2.AsyncClient, resource: dict[str, Any], reason: str
) -> None:
    updates = await apply(client, resource, destination("good"))
    assert statuses(updates) == ["invalid", "created"]
    assert reason in updates[0]["reason"]
    assert updates[0]["resource"] == resource


async def test_duplicates_are_all_invalid_and_each_names_the_others(client: httpx2.AsyncClient) -> None:
    (stored,) = await apply(client, destination("a"))
    again = [destination("a", displayName="x"), destination("b"), destination("a")]
    updates = await apply(client, *again)
    said = "Destination a is given more than once, also at item {}; keep one of them"
    assert updates == [
        {"resource": _masked(again[0]), "status": "invalid", "reason": said.format(2)},
        updates[1],
        {"resource": _masked(again[2]), "status": "invalid", "reason": said.format(0)},
    ]
    assert updates[1]["status"] == "created"
    assert (await client.get("/v1/resources/Destination/a")).json() == {"resource": stored["resource"]}
    body = await delete(client, destination("a"), destination("a"))
    assert statuses(body["updates"]) == ["invalid", "invalid"]
    assert body["errors"] == [f"Destination a: invalid: {said.format(1)}", f"Destination a: invalid: {said.format(0)}"]
    assert await held(client) == ["a", "b"]


async def test_a_new_resource_that_is_deprecated_is_not_created(client: httpx2.AsyncClient) -> None:
    old = destination("a", deprecated=True)
    why = "a new resource cannot be deprecated from the start"
    assert await apply(client, old) == [{"resource": _masked(old), "status": "deprecated", "notes": [why]}]
    assert await held(client) == []
    await apply(client, destination("a"))
    (update,) = await apply(client, old)
    assert (update["status"], update["resource"]["metadata"]["deprecated"]) == ("configured", True)
    assert (await delete(client, old))["updates"] == [{"resource": update["resource"], "status": "deleted"}]


# What a client may say of `metadata.id`


async def test_an_id_that_a_new_resource_brings_is_kept_for_ever(client: httpx2.AsyncClient) -> None:
    ids = []
    for metadata in ({"id": "mine"}, {"id": "other", "displayName": "x"}, {"displayName": "y"}):
        (update,) = await apply(client, destination("a", **metadata))
        ids.append(update["resource"]["metadata"]["id"])
    assert ids == ["mine", "mine", "mine"]


async def test_an_id_is_unique_in_its_project(client: httpx2.AsyncClient) -> None:
    taken = "/metadata/id: another resource of the project has this id; leave it out"
    await apply(client, destination("a", id="mine"))
    updates = await apply(client, destination("b", id="mine"), destination("c", id="c"), destination("d", id="c"))
    assert [(update["status"], update.get("reason")) for update in updates] == [
        ("invalid", taken),
        ("invalid", taken),
        ("invalid", taken),
    ]
    await delete(client, destination("a"))
    assert statuses(await apply(client, destination("b", id="mine"))) == ["created"]


@pytest.mark.parametrize("built_in", ["DestinationType.webhook", "SourceType.otlp"])
async def test_the_id_of_what_is_built_in_is_taken(client: httpx2.AsyncClient, built_in: str) -> None:
    (update,) = await apply(client, destination("a", id=f"builtin.{built_in}"))
    taken = "/metadata/id: another resource of the project has this id; leave it out"
    assert (update["status"], update["reason"]) == ("invalid", taken)
    assert await held(client) == []


async def test_what_is_shown_of_a_built_in_type_can_be_edited_and_applied(client: httpx2.AsyncClient) -> None:
    shown = (await client.get("/v1/resources/SourceType/otlp")).json()["resource"]
    shown["metadata"]["displayName"] = "ours"
    (update,) = await apply(client, shown)
    assert (update["status"], update["resource"]["metadata"]["displayName"]) == ("created", "ours")


@pytest.mark.parametrize("text", ["-x", "x y", "é", "x" * 129, "x\n"])
async def test_an_id_of_another_shape_is_invalid(client: httpx2.AsyncClient, text: str) -> None:
    (update,) = await apply(client, destination("a", id=text))
    assert update["status"] == "invalid"
    assert update["reason"].startswith("/metadata/id: ")


async def test_an_empty_id_is_none(client: httpx2.AsyncClient) -> None:
    (update,) = await apply(client, destination("a", id=""))
    assert (update["status"], len(update["resource"]["metadata"]["id"])) == ("created", 26)


async def test_the_ids_of_another_project_are_free(client: httpx2.AsyncClient, everything: Parts, project: str) -> None:
    other = f"{project}-other"
    await everything.services.accounts.ensure_project(other)
    await apply(client, destination("a", id="mine"))
    headers = {"X-Service-Project": other}
    answer = await client.post("/v1/apply", json={"resources": [destination("a", id="mine")]}, headers=headers)
    assert statuses(answer.json()["updates"]) == ["created"]


# Atomic and dry run


@pytest.mark.parametrize("true", ["true", "1"])
async def test_an_atomic_apply_that_is_refused_is_409_and_stores_nothing(client: httpx2.AsyncClient, true: str) -> None:
    body = {"resources": [destination("a"), POD, destination("b", deprecated=True)]}
    lines = [
        f"item 1: invalid: {NO_KIND}",
        "Destination b: deprecated: a new resource cannot be deprecated from the start",
    ]
    for query in (f"?atomic={true}", f"?atomic={true}&dryRun=true", f"?atomic={true}&acceptInvalid=true"):
        answer = await client.post(f"/v1/apply{query}", json=body)
        assert (answer.status_code, answer.json()) == (409, {"errors": lines, "codes": ANY})
    assert await held(client) == []


async def test_an_atomic_apply_that_is_not_refused_is_stored(client: httpx2.AsyncClient) -> None:
    updates = await apply(client, destination("a"), destination("b"), query="?atomic=true")
    assert statuses(updates) == ["created", "created"]
    assert await held(client) == ["a", "b"]


@pytest.mark.parametrize(("value", "names"), [("true", []), ("1", []), ("false", ["a"]), ("0", ["a"])])
async def test_a_dry_run_answers_as_the_call_would_and_stores_nothing(
    client: httpx2.AsyncClient, value: str, names: list[str]
) -> None:
    updates = await apply(client, destination("a"), POD, query=f"?dryRun={value}")
    assert statuses(updates) == ["created", "invalid"]
    assert updates[0]["resource"]["metadata"]["version"] == 1
    assert await held(client) == names


async def test_a_dry_run_neither_changes_nor_deletes(client: httpx2.AsyncClient) -> None:
    (stored,) = await apply(client, destination("a"))
    (update,) = await apply(client, destination("a", displayName="x"), query="?dryRun=true")
    assert (update["status"], update["resource"]["metadata"]["version"]) == ("configured", 2)
    body = await delete(client, destination("a"), query="?dryRun=true")
    [update] = body["updates"]
    assert [(one["path"], one["difference"]) for one in update.pop("fields")] == [
        ("spec.parameters[hostname].value", "removed"),
        ("spec.type", "removed"),
    ]
    assert body == {"errors": [], "updates": [{"resource": stored["resource"], "status": "deleted"}]}
    assert (await client.get("/v1/resources/Destination/a")).json() == {"resource": stored["resource"]}
    assert len((await client.get("/v1/Destination/a/history")).json()["versions"]) == 1


# Delete


@pytest.mark.parametrize("wrapped", [False, True])
async def test_delete_takes_an_array_and_the_object_that_older_clients_send(
    client: httpx2.AsyncClient, wrapped: bool
) -> None:
    (created,) = await apply(client, destination("a"))
    gone = {"kind": "Destination", "metadata": {"name": "b"}, "spec": 7}
    items = [{"kind": "Destination", "metadata": {"name": "a"}, "spec": "ignored"}, gone, {"kind": "Pod"}]
    answer = await client.post("/v1/delete", json={"resources": items} if wrapped else items)
    reason = f"{NO_KIND}\n/metadata/name: is required, a string"
    assert (answer.status_code, answer.json()) == (
        202,
        {
            "errors": [f"item 2: invalid: {reason}".replace("\n", "; ")],
            "updates": [
                {"resource": created["resource"], "status": "deleted"},
                {"resource": gone, "status": "not-found"},
                {"resource": {"kind": "Pod"}, "status": "invalid", "reason": reason},
            ],
        },
    )
    assert await held(client) == []


async def test_delete_without_anything_to_delete_says_so_with_empty_arrays(client: httpx2.AsyncClient) -> None:
    assert await delete(client) == {"errors": [], "updates": []}
    assert (await client.post("/v1/apply", json={"resources": []})).json() == {"updates": []}


# What is refused whole

BOOLEAN = "The query parameter `{}` is not one of `true`, `false`, `1` and `0`."
KNOWN = "`acceptInvalid`, `atomic`, `dryRun`, `strict`"


@pytest.mark.parametrize(
    ("path", "sentences"),
    [
        ("/v1/apply?dryRun=yes", [BOOLEAN.format("dryRun")]),
        ("/v1/apply?dryRun=", [BOOLEAN.format("dryRun")]),
        ("/v1/apply?dryRun=TRUE", [BOOLEAN.format("dryRun")]),
        ("/v1/apply?atomic=true&atomic=true", ["The query parameter `atomic` is given more than once."]),
        ("/v1/apply?dryrun=true", [f"The query parameter `dryrun` is not known here: there are {KNOWN}."]),
        (
            "/v1/apply?acceptInvalid=x&z=1&atomic=&y",
            [
                f"The query parameter `y` is not known here: there are {KNOWN}.",
                f"The query parameter `z` is not known here: there are {KNOWN}.",
                BOOLEAN.format("acceptInvalid"),
                BOOLEAN.format("atomic"),
            ],
        ),
        ("/v1/apply?%ff=1", ["The query is not at most 100 parameters in percent-encoded UTF-8."]),
        ("/v1/apply?" + "a=1&" * 101, ["The query is not at most 100 parameters in percent-encoded UTF-8."]),
        ("/v1/delete?atomic=true", ["The query parameter `atomic` is not known here: there is `dryRun`."]),
    ],
)
async def test_a_query_that_is_not_documented_is_400_and_names_each_problem(
    client: httpx2.AsyncClient, path: str, sentences: list[str]
) -> None:
    answer = await client.post(path, json={"resources": [destination("a")]})
    assert (answer.status_code, answer.json()) == (400, {"errors": sentences, "codes": ANY})
    assert await held(client) == []


WRAPPED = 'The body must be an object such as {"resources": [...]}.'
BARE = "The body must be an array of resources."


@pytest.mark.parametrize(
    ("body", "applied", "deleted"),
    [
        ("", [WRAPPED], [BARE]),
        (" ", [WRAPPED], [BARE]),
        ("[]", [WRAPPED], None),
        ('"x"', [WRAPPED], [BARE]),
        ("null", [WRAPPED], [BARE]),
        ("{}", ["/resources: is required"], ["/resources: is required"]),
        ('{"resources": {}}', ["/resources: must be an array"], ["/resources: must be an array"]),
        (
            '{"a/b": 1, "resources": null, "c": 2}',
            [
                "/a~1b: unknown key; only `resources` is allowed",
                "/c: unknown key; only `resources` is allowed",
                "/resources: must be an array",
            ],
            None,
        ),
        (
            '{"resources": [1, {}, null], "x": 1}',
            [
                "/x: unknown key; only `resources` is allowed",
                "/resources/0: must be an object",
                "/resources/2: must be an object",
            ],
            [
                "/x: unknown key; only `resources` is allowed",
                "/resources/0: must be an object",
                "/resources/2: must be an object",
            ],
        ),
        (
            '{"resources": [{}, 1, {}, null, []]}',
            ["/resources/1: must be an object", "/resources/3: must be an object", "/resources/4: must be an object"],
            None,
        ),
        ('[{}, "x"]', [WRAPPED], ["/1: must be an object"]),
    ],
)
async def test_a_body_of_another_shape_is_400_and_names_each_problem(
    client: httpx2.AsyncClient, body: str, applied: list[str], deleted: list[str] | None
) -> None:
    answer = await client.post("/v1/apply", content=body)
    assert (answer.status_code, answer.json()) == (400, {"errors": applied, "codes": ANY})
    if deleted is not None:
        answer = await client.post("/v1/delete", content=body)
        assert (answer.status_code, answer.json()) == (400, {"errors": deleted, "codes": ANY})


@pytest.mark.parametrize("path", ["/v1/apply", "/v1/delete"])
@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"{", "1:2"),
        (b'{"resources": [\n  {"kind": Pod}]}', "2:12"),
        (b'{"resources": [], "resources": []}', "1:19"),
        (b'{"resources": [NaN]}', "1:16"),
        (b'{"resources": [1e999]}', "1:16"),
        (b'{"resources": []} x', "1:19"),
        (b"\x00", "1:1"),
        (b'{"a": "\xff"}', "1:8"),
    ],
)
async def test_what_is_not_json_is_400_with_line_and_column(
    client: httpx2.AsyncClient, path: str, body: bytes, place: str
) -> None:
    answer = await client.post(path, content=body)
    (sentence,) = answer.json()["errors"]
    assert (answer.status_code, sentence[: len(place) + 7]) == (400, f"body:{place}: ")


@pytest.mark.parametrize(("path", "prefix"), [("/v1/apply", '{"resources":['), ("/v1/delete", "[")])
async def test_a_body_of_too_many_resources_is_413(client: httpx2.AsyncClient, path: str, prefix: str) -> None:
    many = prefix + ",".join(["{}"] * (parts.MAX_RESOURCES + 1)) + "]" + "}" * prefix.startswith("{")
    sentence = f"The body holds {parts.MAX_RESOURCES + 1} resources, over the limit of {parts.MAX_RESOURCES}."
    answer = await client.post(path, content=many)
    assert (answer.status_code, answer.json()) == (413, {"errors": [sentence], "codes": ANY})
    answer = await client.post(path, content=many.replace("{},", "", 1))
    assert answer.status_code == 202


async def test_the_content_type_and_what_is_accepted_do_not_matter(client: httpx2.AsyncClient) -> None:
    headers = {"Content-Type": "text/plain", "Accept": "text/html"}
    answer = await client.post("/v1/apply", content='{"resources":[]}', headers=headers)
    assert (answer.status_code, answer.json()) == (202, {"updates": []})


def _masked(resource: dict[str, Any]) -> dict[str, Any]:
    """Mask every parameter value of a resource that was sent and is not stored."""
    masked: dict[str, Any] = json.loads(json.dumps(resource))
    for parameter in masked["spec"]["parameters"]:
        parameter["value"] = "(sensitive)"
    return masked


OF_ANOTHER = (
    "the present version is 2, and `metadata.{}` of the document is of another; get the resource and make the change "
    "again"
)


async def test_a_strict_apply_stores_what_was_made_from_the_present_version_alone(client: httpx2.AsyncClient) -> None:
    [first] = await apply(client, destination("a"))
    [second] = await apply(client, destination("a", description="another"))
    old, new = (update["resource"]["metadata"] for update in (first, second))
    spec_hash, other = new["hash"], "0" * 64
    cases = [
        ({"version": 1}, ("error", OF_ANOTHER.format("version"))),
        ({"version": 1, "hash": spec_hash}, ("error", OF_ANOTHER.format("version"))),
        ({"hash": other}, ("error", OF_ANOTHER.format("hash"))),
        ({"version": 2, "hash": other}, ("error", OF_ANOTHER.format("hash"))),
        ({"version": "2"}, ("error", OF_ANOTHER.format("version"))),
        ({"version": 2, "hash": spec_hash}, ("configured", None)),
        ({"version": None}, ("configured", None)),
        ({}, ("configured", None)),
    ]
    assert (old["version"], new["version"]) == (1, 2)
    for made, told in cases:
        sent = destination("a", description="mine", **made)
        [update] = await apply(client, sent, query="?strict=version&dryRun=true")
        assert (update["status"], update.get("reason")) == told, made
        if told[0] == "error":
            assert update["resource"]["metadata"]["version"] == 2
    [equal] = await apply(client, destination("a", description="another", version=1), query="?strict=version")
    assert equal["status"] == "error"
    [lenient] = await apply(client, destination("a", description="mine", version=1, hash=other))
    assert (lenient["status"], lenient["resource"]["metadata"]["version"]) == ("configured", 3)


async def test_a_strict_apply_of_what_is_not_stored_any_more_is_an_error(client: httpx2.AsyncClient) -> None:
    [update] = await apply(client, destination("a", version=3), query="?strict=version")
    told = "there is no Destination a; to create it, leave out `metadata.version` and `metadata.hash`"
    assert (update["status"], update["reason"]) == ("error", told)
    [update] = await apply(client, destination("a"), query="?strict=version")
    assert update["status"] == "created"
    atomic = await client.post(
        "/v1/apply?strict=version&atomic=true", json={"resources": [destination("a", version=7), destination("b")]}
    )
    assert (atomic.status_code, len(atomic.json()["errors"]), await held(client)) == (409, 1, ["a"])


async def test_strictness_is_about_versions_alone(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/v1/apply?strict=true", json={"resources": []})
    assert (answer.status_code, answer.json()) == (
        400,
        {"errors": ["The query parameter `strict` takes `version` alone."], "codes": ANY},
    )
