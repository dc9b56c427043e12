"""A real daemon tells of what is wrong, once for each cause, and takes it back when it is over."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import daemons
from tests.daemons import Daemon, Followed, destination
from tests.ops import scraping
from tests.repositories import Repository
from tests.servers import sinks
from tests.servers.sinks import Received, Sink

SECRET = "canary-alert-secret-0123456789"
LIST = "/v1/api/notifications"
INVALID = "apiVersion: service/v1\nkind: Destination\nmetadata: {name: %s}\nspec: {type: 7}\n"


class World(NamedTuple):
    """A daemon, and where its alerts go."""

    daemon: Daemon
    sink: Sink
    folder: Path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("notifying")
    (folder / "secret").write_text(SECRET)
    with sinks.listening() as sink:
        alert = {"name": "all", "url": f"http://127.0.0.1:{sink.port}/", "secretFile": str(folder / "secret")}
        settings = {"alerts": [alert], "organization": "Example Ltd", "notifications": {"interval": "50ms"}}
        with daemons.running(folder / "daemon", settings=settings) as daemon:
            yield World(daemon, sink, folder)


def notifications(daemon: Daemon, project: str) -> list[dict[str, Any]]:
    """Those of a project, newest first."""
    answer = daemon.get(LIST, project=project)
    assert answer.status == 200, answer
    return [one for one in answer.body["notifications"] if one["spec"].get("account") == project]


def brief(found: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["spec"]["notificationType"], one["metadata"]["labels"]["service/state"]) for one in found]


def becomes(daemon: Daemon, project: str, *expected: tuple[str, str]) -> list[dict[str, Any]]:
    """The notifications of a project, once they are these, newest first."""

    def observe() -> list[dict[str, Any]] | None:
        found = notifications(daemon, project)
        return found if brief(found) == [*expected] else None

    try:
        what = f"the notifications of {project} are {expected}"
        return daemons.until(observe, what, seconds=daemons.ANSWER_SECONDS)  # of 10,000 resources, a few
    except AssertionError as late:
        raise AssertionError(f"they are {brief(notifications(daemon, project))}") from late


def message(one: dict[str, Any]) -> str:
    return str(one["metadata"]["additionalInfo"]["message"])


def alerts(sink: Sink, project: str) -> list[tuple[str, str]]:
    """Return the alerts about a project, in order: each once, since what is told at a restart may come again."""
    told = {one.header("webhook-id"): one.json for one in [*sink.accepted]}.values()
    return [
        (one["event"], one["notification"]["spec"]["notificationType"])
        for one in told
        if one["event"] != "test" and one["notification"]["spec"].get("account") == project
    ]


def followed(world: World, name: str, *documents: str) -> Followed:
    """A repository in a project of its own, with these documents."""
    source = Repository.init(world.folder / name)
    for number, document in enumerate(documents):
        source.write(f"{number}.yaml", document)
    source.commit()
    return Followed(world.daemon, source, name=name)


def test_a_repository_that_cannot_be_reached_is_told_once_and_taken_back(world: World) -> None:
    daemon, away = world.daemon, world.folder / "away"
    one = followed(world, "gone", destination("a"))
    daemon.state_of("gone", "ready")
    assert notifications(daemon, "gone") == []
    one.source.path.rename(away)
    daemon.reconcile("gone")
    [opened] = becomes(daemon, "gone", ("RepositoryUnreachable", "open"))
    assert opened["spec"] == {
        "notificationType": "RepositoryUnreachable",
        "severity": "error",
        "scope": "project",
        "organization": "Example Ltd",
        "account": "gone",
        "recommendationId": "repositoryunreachable",
        "hidden": False,
    }
    identifier = opened["metadata"]["id"]
    assert daemon.get(f"{LIST}/{identifier}").body == {"notification": opened}
    daemon.restart()
    assert [found["metadata"]["id"] for found in notifications(daemon, "gone")] == [identifier]
    away.rename(one.source.path)
    daemon.reconcile("gone")
    [resolved] = becomes(daemon, "gone", ("RepositoryUnreachable", "resolved"))
    one.source.path.rename(away)
    daemon.reconcile("gone")
    [again] = becomes(daemon, "gone", ("RepositoryUnreachable", "open"))
    assert [found["metadata"]["id"] for found in (resolved, again)] == [identifier, identifier]
    assert again["metadata"]["labels"]["service/occurrences"] == "2"
    away.rename(one.source.path)
    daemon.reconcile("gone")
    becomes(daemon, "gone", ("RepositoryUnreachable", "resolved"))
    told = [(event, "RepositoryUnreachable") for event in ("opened", "resolved", "opened")]
    daemons.until(lambda: alerts(world.sink, "gone") == told or None, "what came back is told, its end not yet")


def test_an_alert_is_signed_over_what_arrives_and_sent_again_after_a_failure(world: World) -> None:
    world.sink.choose(refusing("signed"))
    one = followed(world, "signed", destination("a"))
    one.source.git("branch", "--move", "main", "trunk")
    world.daemon.reconcile("signed")
    becomes(world.daemon, "signed", ("RepositoryHeld", "open"))
    daemons.until(lambda: alerts(world.sink, "signed") or None, "the alert arrives")
    sent = [each for each in world.sink.received if b'"account":"signed"' in each.body]
    assert [each.body for each in sent] == [sent[0].body] * 2
    assert [each.header("webhook-signature") for each in sent] == [signature(each) for each in sent]
    assert sent[0].json["text"].startswith("[error] Nothing is taken over from the repository signed (signed)\n")


def test_a_test_alert_goes_out_of_the_running_service_and_alerts_are_counted(world: World) -> None:
    [tried] = world.daemon.post("/v1/alerts/test", {"target": "all"}).body["tests"]
    assert {**tried, "seconds": 0} == {"target": "all", "taken": True, "status": 200, "seconds": 0, "message": ""}
    [sent] = [one for one in world.sink.received if one.json["event"] == "test"]
    assert sent.header("webhook-signature") == signature(sent)
    scraped = scraping.scrape(world.daemon)
    for name in ("sent_total", "failed_attempts_total", "given_up_total", "waiting"):
        assert scraped.values(f"reconciler_alerts_{name}").keys() == {("all",)}


def refusing(project: str) -> Callable[[Received], sinks.Reply]:
    """The first alert of a project gets a 500."""
    seen: list[Received] = []

    def choose(one: Received) -> sinks.Reply:
        if f'"account":"{project}"'.encode() in one.body:
            seen.append(one)
            return sinks.says(500 if len(seen) == 1 else 200)
        return sinks.says(200)

    return choose


def signature(one: Received) -> str:
    signed = f"{one.header('webhook-id')}.{one.header('webhook-timestamp')}.".encode() + one.body
    return f"v1,{base64.b64encode(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()).decode()}"


def test_deletions_that_are_held_are_told_until_they_are_restored(world: World) -> None:
    one = followed(world, "held", *[destination(f"d{number}") for number in range(7)])
    world.daemon.state_of("held", "ready")
    for number in range(4):
        one.source.remove(f"{number}.yaml")
    one.source.commit()
    [held] = becomes(world.daemon, "held", ("PruneHeld", "open"))
    assert "4 of 7 resources would go" in message(held)
    one.source.git("revert", "--no-edit", "HEAD")
    becomes(world.daemon, "held", ("PruneHeld", "resolved"))


@pytest.mark.parametrize("number", [50, pytest.param(10_000, marks=pytest.mark.slow)])
def test_however_many_resources_are_invalid_there_is_one_notification(world: World, number: int) -> None:
    name = f"broken-{number}"
    one = followed(world, name, *[INVALID % f"d{each:05}" for each in range(number)], destination("fine"))
    [found] = becomes(world.daemon, name, ("ResourcesInvalid", "open"))
    assert found["metadata"]["displayName"] == f"Not stored as Git says: {number} resources of the repository {name}"
    assert message(found).startswith(f"{number} invalid: Destination d00000, Destination d00001, ")
    assert f" and {number - 5} more. The first: 0.yaml:" in message(found)
    daemons.until(lambda: alerts(world.sink, name) or None, "the alert arrives")
    assert alerts(world.sink, name) == [("opened", "ResourcesInvalid")]
    for each in range(number):
        one.source.write(f"{each}.yaml", destination(f"d{each:05}"))
    one.source.commit()
    becomes(world.daemon, name, ("ResourcesInvalid", "resolved"))


def test_an_incomplete_configuration_and_a_deprecated_type_in_use_are_told(world: World) -> None:
    daemon, project = world.daemon, "incomplete"
    daemon.post("/v1/projects", {"name": project})
    old = {
        "apiVersion": "service/v1",
        "kind": "SourceType",
        "metadata": {"name": "old", "deprecated": True, "additionalInfo": {"message": "use the type `new`"}},
        "spec": {"version": "1", "parameters": []},
    }
    # What is new and deprecated is not created through the API, and what is there may become so.
    daemon.apply({**old, "metadata": {"name": "old"}}, project=project)
    source = {"apiVersion": "service/v1", "kind": "Source", "metadata": {"name": "s"}, "spec": {"type": "old"}}
    empty = {"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": "d"}, "spec": {"type": "webhook"}}
    using = {
        "apiVersion": "service/v1",
        "kind": "Configuration",
        "metadata": {"name": "edge"},
        "spec": {"sources": [{"name": "s"}], "destinations": [{"name": "d"}]},
    }
    updates = daemon.apply(source, empty, using, query="?acceptInvalid=true", project=project)
    assert [update["status"] for update in updates] == ["created"] * 3, updates
    [incomplete] = becomes(daemon, project, ("ConfigurationIncomplete", "open"))
    assert incomplete["metadata"]["displayName"] == "Incomplete: 2 resources of the project incomplete"
    assert message(incomplete).startswith("Configuration edge, Destination d. Configurations among them have ")
    assert [update["status"] for update in daemon.apply(old, project=project)] == ["configured"]
    deprecated, _ = becomes(daemon, project, ("ResourceDeprecated", "open"), ("ConfigurationIncomplete", "open"))
    assert message(deprecated).startswith("Used by Source s. Use the type `new`. It works as before. ")
    hostname = {"type": "webhook", "parameters": [{"name": "hostname", "value": "logs.example.org"}]}
    daemon.apply({**empty, "spec": hostname}, project=project)
    becomes(daemon, project, ("ResourceDeprecated", "open"), ("ConfigurationIncomplete", "resolved"))


def test_an_endpoint_that_fails_and_records_that_nobody_takes_are_told(world: World) -> None:
    daemon, project = world.daemon, "failing"
    daemon.post("/v1/projects", {"name": project})
    made = daemon.post("/v1/api-keys", {"name": "sender", "role": "user", "scopes": ["logs"]}, project=project)
    key = made.body["apiKey"]["key"]
    with sinks.listening() as sink:
        sink.script(sinks.says(503))
        fast = {"retry_on_failure_initial_interval": 1, "retry_on_failure_max_interval": 1}
        endpoint = {"scheme": "http", "hostname": "127.0.0.1", "port": sink.port, **fast}
        parameters = [{"name": name, "value": value} for name, value in endpoint.items()]
        updates = daemon.apply(
            {
                "apiVersion": "service/v1",
                "kind": "Destination",
                "metadata": {"name": "siem"},
                "spec": {"type": "webhook", "parameters": parameters},
            },
            {
                "apiVersion": "service/v1",
                "kind": "Configuration",
                "metadata": {"name": "all"},
                "spec": {
                    "sources": [{"type": "otlp"}],
                    "destinations": [{"name": "siem"}],
                    "selector": {"matchLabels": {}},
                },
            },
            project=project,
        )
        assert [update["status"] for update in updates] == ["created"] * 2, updates
        daemons.until(lambda: send(daemon, key) == 200 or None, "records are taken")
        for _ in range(5):  # as many failures in a row as tell that an endpoint is down
            send(daemon, key)
        [failing] = becomes(daemon, project, ("DeliveryFailing", "open"))
        assert failing["metadata"]["displayName"] == "Nothing gets through to the destination siem"
        assert "answered 503" in message(failing)
        sink.script(sinks.says(200))
        becomes(daemon, project, ("DeliveryFailing", "resolved"))
    daemon.delete("/v1/resources/Configuration/all", project=project)
    daemons.until(lambda: (send(daemon, key), unrouted(daemon, project))[1] or None, "records are for nobody")
    becomes(daemon, project, ("LogsUnrouted", "open"), ("DeliveryFailing", "resolved"))


def test_flows_that_a_commit_ended_are_told_until_they_deliver_again(world: World) -> None:
    named = '[{name: "%s"}]'
    head = "apiVersion: service/v1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n"
    webhook = '{type: webhook, parameters: [{name: hostname, value: "127.0.0.1"}]}'
    delivers = "{sources: [{type: otlp}], destinations: %s, selector: {matchLabels: {}}}" % (named % "siem")
    one = followed(world, "ended", head % ("Destination", "siem", webhook), head % ("Configuration", "web", delivers))
    world.daemon.state_of("ended", "ready")
    one.source.remove("1.yaml")
    commit = one.source.commit()[:12]
    [found] = becomes(world.daemon, "ended", ("FlowStopped", "open"))
    assert found["metadata"]["displayName"] == f"1 flow ended with the commit {commit} of the repository ended"
    assert message(found).startswith("Web stops delivering to siem: the Configuration is deleted. ")
    world.daemon.restart()
    assert brief(notifications(world.daemon, "ended")) == [("FlowStopped", "open")]
    one.source.git("revert", "--no-edit", "HEAD")
    becomes(world.daemon, "ended", ("FlowStopped", "resolved"))
    told = [("opened", "FlowStopped"), ("resolved", "FlowStopped")]
    daemons.until(lambda: alerts(world.sink, "ended") == told or None, "both alerts arrive")


def send(daemon: Daemon, key: str) -> int:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    record = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "a line"}}]}]}]}
    return daemon.ask("POST", "/v1/logs", json.dumps(record).encode(), headers).status


def unrouted(daemon: Daemon, project: str) -> int:
    return int(daemon.get("/v1/deliveries", project=project).body["unrouted"]["records"])


def test_a_person_dismisses_for_themselves_and_a_key_may_not(world: World) -> None:
    daemon, project = world.daemon, "people"
    followed(world, project, INVALID % "a")
    [found] = becomes(daemon, project, ("ResourcesInvalid", "open"))
    address = f"{LIST}/{found['metadata']['id']}"
    created = daemon.post("/v1/users", {"name": "ana", "password": "canary-password-of-ana"})
    assert created.status == 201, created
    membership = f"/v1/projects/{project}/members/ana"
    viewer = json.dumps({"role": "viewer"}).encode()
    basic = base64.b64encode(b"ana:canary-password-of-ana").decode()
    ana = {"Authorization": f"Basic {basic}", "Content-Type": "application/json"}
    assert daemon.ask("GET", address, None, ana).status == 404
    daemon.request("PUT", membership, viewer)
    dismissed = json.dumps({"userStatus": "dismissed"}).encode()
    answer = daemon.ask("POST", f"{address}/status", dismissed, ana)
    notification = answer.body["notification"]
    assert (answer.status, notification["status"], notification["spec"]["hidden"]) == (
        200,
        {"userStatus": "dismissed"},
        True,
    )
    assert daemon.get(address).body["notification"]["status"] == {"userStatus": "unread"}
    assert daemon.request("POST", f"{address}/status", dismissed).status == 403
    assert daemon.ask("POST", f"{LIST}/unknown/status", dismissed, ana).status == 404
    assert daemon.ask("POST", f"{address}/status", b'{"userStatus": "seen"}', ana).status == 400


def test_keys_of_an_admin_who_is_demoted_or_removed_are_told_until_they_are_revoked(world: World) -> None:
    daemon, password = world.daemon, "canary-password-of-zoe"
    daemon.post("/v1/projects", {"name": "leaving"})
    assert daemon.post("/v1/users", {"name": "zoe", "password": password}).status == 201

    def as_role(role: str) -> None:
        path = "/v1/projects/leaving/members/zoe"
        assert daemon.request("PUT", path, json.dumps({"role": role}).encode()).status == 200

    def made_by_zoe(**members: object) -> dict[str, Any]:
        shown = base64.b64encode(f"zoe:{password}".encode()).decode()
        body = json.dumps({"name": "robot", "role": "viewer", "project": "leaving", **members}).encode()
        answer = daemon.ask("POST", "/v1/api-keys", body, {"Authorization": f"Basic {shown}"})
        assert answer.status == 201, answer
        return dict(answer.body["apiKey"])

    def opens(key: dict[str, Any]) -> int:
        return daemon.ask("GET", "/v1/resources/Source", None, {"Authorization": f"Bearer {key['key']}"}).status

    as_role("admin")
    shared, own = made_by_zoe(), made_by_zoe(role="admin", personal=True)
    assert [opens(shared), opens(own)] == [200, 200]
    as_role("user")
    [told] = becomes(daemon, "leaving", ("KeysToReview", "open"))
    assert told["metadata"]["displayName"] == (
        "1 key of the project leaving to review: user:zoe is no admin there any more"
    )
    assert message(told).startswith(f"robot ({shared['id']}). ")
    as_role("admin")
    becomes(daemon, "leaving", ("KeysToReview", "resolved"))
    assert daemon.delete("/v1/users/zoe").status == 204
    assert [opens(shared), opens(own)] == [200, 401]
    becomes(daemon, "leaving", ("KeysToReview", "open"))
    assert daemon.delete(f"/v1/api-keys/{shared['id']}").status == 204
    becomes(daemon, "leaving", ("KeysToReview", "resolved"))
