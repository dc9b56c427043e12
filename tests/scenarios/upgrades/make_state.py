"""Make a state directory of this version for the upgrade test: `python -m tests.scenarios.upgrades.make_state`.

Run it at the version whose state is to be kept; it writes `from-<version of the store>.tar.xz` beside this file. It
uses the real service as people do: with commits, requests, log records and keys. So it takes some seconds, and the test
does not run it.

An archive is never made anew once a later version changed the store: it shows what was, and nobody can make it again.
"""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests import daemons
from tests.api.pages.browsers import Browser
from tests.daemons import Daemon
from tests.delivery.lines import resource
from tests.delivery.lines import send as send_logs
from tests.repositories import Repository
from tests.scenarios.upgrades import states
from tests.servers import sinks
from tests.servers.sinks import Received, Reply, Sink

PEOPLE = {
    "admin": "canary-of-admin",  # whom the first start made
    "ana": "canary-of-ana-1",  # made keys as an admin of projects, and is a viewer now
    "bob": "canary-of-bob-1",  # made keys as an admin, and is in no project now
    "carl": "canary-of-carl",  # an admin still
    "olga": "canary-of-olga",  # made keys as an organization admin, and is none now
    "root": "canary-of-root",  # an organization admin
}
REMOVED = {"zoe": "canary-of-zoe-1"}  # made keys, and was removed
SCOPES: Sequence[tuple[str, ...]] = (("resources",), ("logs",), ("metrics",), ("logs", "metrics", "resources"))
OF_PEOPLE: Sequence[tuple[str, tuple[str, ...]]] = (
    ("admin", ("resources",)),
    ("user", ("logs", "resources")),
    ("viewer", ("logs",)),
)
STORED = ("created", "configured", "unchanged")

Document = Mapping[str, Any]


def main() -> None:
    """Make it, start it again as the test does, and keep what it says."""
    folder = Path("/tmp/upgrades")  # messages name it, and are stored
    folder.mkdir()
    kept = folder / "kept.tar.xz"
    try:
        with sinks.listening() as sink:
            sink.choose(refuses)
            secrets = make(folder / "made", sink)
            states.pack(kept, folder / "made")
            states.unpack(kept, folder / "again")
            sink.accepted.clear()
            sink.choose(is_told)
            shown = ask(states.daemon(folder / "again", proxy=proxy(sink)), secrets)
            shown["said"]["alerts"] = states.alerts(sink)
        archive = states.FOLDER / f"from-{shown['store']}.tar.xz"
        states.pack(archive, folder / "made", answers=shown)
        sys.stdout.write(f"{archive}: {archive.stat().st_size:,} bytes\n")
    finally:
        shutil.rmtree(folder)


def ask(service: Daemon, secrets: dict[str, Any]) -> dict[str, Any]:
    """Return what the service says of what was made, once started anew."""
    service.start()
    try:
        states.settle(service)
        told = states.answers(service, **secrets)
        previous = None
        while told != previous:  # notifications come with the looks after the start
            previous = told
            states.settle(service)
            told = states.answers(service, **secrets)
    finally:
        daemons.end(service)
    return {
        "store": states.store_version(service.state),
        "made": datetime.now(UTC).isoformat(),
        "secrets": secrets,
        "said": told,
    }


def proxy(sink: Sink) -> str:
    """The sink as a proxy: endpoints have names of their own, and the sink stands for all of them."""
    return f"http://127.0.0.1:{sink.port}"


def refuses(request: Received) -> Reply:
    """An endpoint for dead letters refuses what it gets; the others are down."""
    return sinks.says(400 if "refusing" in request.path else 503, body=b"canary-answer")


def is_told(request: Received) -> Reply:
    """The same, but for alerts, which are taken."""
    return sinks.says(200) if f"//{states.ALERTS}:" in request.path else refuses(request)


def make(folder: Path, sink: Sink) -> dict[str, Any]:
    """Use a service until its state directory has everything; the secrets with which it is asked."""
    shutil.rmtree(folder, ignore_errors=True)
    repositories = {name: states.repository(folder, name) for name in states.REPOSITORIES}
    for name, repository in repositories.items():
        write(repository, FIRST[name])
        repository.commit("First")
    secret = folder / "state/secrets/default/token"
    secret.parent.mkdir(parents=True)
    secret.write_text("canary-in-a-file")
    (folder / "state/secrets/shop").mkdir()
    (folder / "state/secrets/shop/token").write_text("canary-in-a-file")
    service = states.daemon(folder, proxy=proxy(sink))
    service.configure(states.followed(folder, *repositories))
    service.start()
    try:
        secrets = people_and_keys(service)
        for name, repository in repositories.items():
            service.run_of(name, repository.head())
        drop(service, folder)
        through_the_api(service)
        git_goes_on(service, repositories)
        with_the_session(service, secrets)
        logs(service, secrets["keys"]["default-admin-logs"])
        orphan(service)
        told(service)
    finally:
        daemons.end(service)
    for name, repository in repositories.items():
        if name in states.DROPPED:
            shutil.rmtree(repository.path)
            continue
        repository.git("pack-refs", "--all")
        repository.git("gc", "--quiet", "--prune=now")
        if name in states.MISSING:
            shutil.rmtree(repository.path)
    return secrets


# People and keys


def people_and_keys(service: Daemon) -> dict[str, Any]:
    """People of every standing, keys of every role and scope by makers whose standing changed since."""
    done(service.request("PATCH", "/v1/users/admin", json.dumps({"password": PEOPLE["admin"]}).encode()))
    everybody = {name: password for name, password in (PEOPLE | REMOVED).items() if name != "admin"}
    for name, password in everybody.items():
        body = {"name": name, "password": password, "displayName": name.title()}
        done(service.post("/v1/users", {**body, "organizationAdmin": name in ("root", "olga", "zoe")}))
    for project in states.PROJECTS:
        for name in ("ana", "bob", "carl"):
            done(service.request("PUT", f"/v1/projects/{project}/members/{name}", b'{"role": "admin"}'))
    keys = made_keys(service, everybody)
    # What makers lose afterwards.
    for project in states.PROJECTS:
        done(service.request("PUT", f"/v1/projects/{project}/members/ana", b'{"role": "viewer"}'))
        done(service.delete(f"/v1/projects/{project}/members/bob"))
    done(service.request("PUT", "/v1/projects/shop/members/bob", b'{"role": "user"}'))
    done(service.request("PATCH", "/v1/users/olga", b'{"organizationAdmin": false}'))
    done(service.request("PUT", "/v1/projects/default/members/olga", b'{"role": "user"}'))
    done(service.delete("/v1/users/zoe"))
    browser = Browser(service)
    seen = browser.post("/sign-in", {"name": "root", "password": PEOPLE["root"], "back": "/account"})
    assert seen.status == 303, seen
    cookie = "; ".join(f"{name}={value}" for name, value in browser.jar.items())
    return {"keys": keys, "people": PEOPLE, "cookie": cookie}


def made_keys(service: Daemon, everybody: Mapping[str, str]) -> dict[str, str]:
    """Keys of every role and scope, with and without an end, by the operator and by people; by name."""
    keys = {}
    for project in (*states.PROJECTS, None):
        for role in ("viewer", "user", "admin"):
            for scopes in SCOPES:
                name = "-".join((project or "organization", role, *scopes))
                keys[name] = key(service, {}, name=name, project=project, role=role, scopes=scopes)
                if project in ("default", None):
                    name += "-ends"
                    keys[name] = key(service, {}, name=name, project=project, role=role, scopes=scopes, expiry="8760h")
    for maker in ("ana", "bob", "carl", "olga", "zoe"):
        who = states.basic(maker, everybody[maker])
        projects: tuple[str | None, ...] = ("default", "shop") if maker in ("ana", "bob", "carl") else ("default", None)
        for project in projects:
            for role, scopes in OF_PEOPLE:
                name = "-".join((project or "organization", role, *scopes, "by", maker))
                keys[name] = key(service, who, name=name, project=project, role=role, scopes=scopes)
    gone = key(service, {}, name="revoked", project="default", role="admin", scopes=("resources",))
    [found] = [one for one in service.get("/v1/api-keys").body["apiKeys"] if one["name"] == "revoked"]
    done(service.delete(f"/v1/api-keys/{found['id']}"))
    return keys | {"revoked": gone}


def key(
    service: Daemon,
    who: Mapping[str, str],
    *,
    name: str,
    project: str | None,
    role: str,
    scopes: Sequence[str],
    expiry: str | None = None,
) -> str:
    """A key; without headers of somebody, the operator makes it."""
    body = {"name": name, "project": project, "role": role, "scopes": list(scopes)}
    body |= {} if expiry is None else {"expiry": expiry}
    headers = dict(who) or {"Authorization": f"Bearer {service.key}"}
    return str(done(service.ask("POST", "/v1/api-keys", json.dumps(body).encode(), headers)).body["apiKey"]["key"])


def with_the_session(service: Daemon, secrets: Mapping[str, Any]) -> None:
    """The browser that signed in is known."""
    assert states.me(service, {"Cookie": secrets["cookie"]})[0] == 200


def done(answer: daemons.Answer) -> daemons.Answer:
    """Return what is accepted."""
    assert answer.status in (200, 201, 202, 204), answer
    return answer


# Resources


def values(**parameters: object) -> list[dict[str, object]]:
    """The parameters of a component."""
    return [{"name": name, "value": value} for name, value in parameters.items()]


def webhook(name: str, **parameters: object) -> dict[str, Any]:
    """A webhook whose endpoint is `<name>.example.com`, without TLS."""
    where = {"scheme": "http", "hostname": f"{name}.example.com", "port": 8080}
    return resource("Destination", name, {"type": "webhook", "parameters": values(**{**where, **parameters})})


def delivers(name: str, *destinations: str, **spec: object) -> dict[str, Any]:
    """A Configuration that delivers what is labelled with its name."""
    whole = {
        "sources": [{"type": "otlp"}],
        "destinations": [{"name": each} for each in destinations],
        "selector": {"matchLabels": {"line": name}},
    }
    return resource("Configuration", name, {**whole, **spec})


def meta(document: Document, **metadata: object) -> dict[str, Any]:
    """The same with more metadata."""
    return {**document, "metadata": {**document["metadata"], **metadata}}


PATIENT = {
    "retry_on_failure_initial_interval": 1,
    "retry_on_failure_max_interval": 1,
    "retry_on_failure_max_elapsed_time": 31622400,
}
NO_RETRY = {"retry_on_failure_enabled": False}

TAIL = resource(
    "SourceType",
    "tail",
    {
        "version": "1.2.0",
        "supportedPlatforms": ["linux"],
        "featureGate": "tails",
        "parameters": [
            {"name": "path", "label": "Path", "type": "string", "required": True},
            {"name": "every", "type": "int", "default": 10, "minimum": 1, "maximum": 600},
            {"name": "mode", "type": "enum", "validValues": ["local", "remote"], "default": "local"},
            {
                "name": "host",
                "type": "string",
                "required": True,
                "relevantIf": [{"name": "mode", "operator": "equals", "value": "remote"}],
            },
            {"name": "token", "type": "string", "options": {"sensitive": True, "unknownOption": [1, None, {}]}},
            {"name": "headers", "type": "map", "default": {}, "options": {"sensitive": True}},
            {"name": "tags", "type": "enums", "validValues": ["a", "b"], "default": []},
            {"name": "level", "type": "mapToEnum", "validValues": ["low", "high"]},
            {"name": "more", "type": "yaml", "properties": {"null": None, "empty": []}, "advancedConfig": True},
            {"name": "zone", "type": "timezone", "hidden": True},
            {"name": "file", "type": "filename"},
        ],
        "logs": {"receivers": "- filelog: {path: {{ .path }}}\n"},
        "metrics+traces": None,
    },
)
ODD = resource(
    "SourceType",
    "odd",
    {
        "parameters": [
            {"name": "duration", "type": "durations", "default": "5m"},  # a type that nobody knows
            {"name": "any", "type": "Anything", "default": {"a": [None, ""]}},
            {"name": "on", "type": "bool", "default": False},
            {"name": "count", "type": "int"},
            # Conditions whose values have another type than the parameter that they look at.
            {
                "name": "when_text",
                "type": "string",
                "relevantIf": [{"name": "on", "operator": "equals", "value": "sometimes"}],
            },
            {
                "name": "when_list",
                "type": "string",
                "required": True,
                "relevantIf": [{"name": "count", "operator": "equals", "value": ["1"]}],
            },
        ],
        "logs": "",
        "traces": [],
    },
)
TYPES = [
    TAIL,
    ODD,
    # Before the built-in type of that name.
    resource("SourceType", "file", {"parameters": [{"name": "include", "type": "strings", "required": True}]}),
    resource("DestinationType", "custom", {"parameters": []}),
    resource(
        "DestinationType",
        "archive",
        {
            "parameters": [
                {"name": "bucket", "type": "string", "required": True},
                {"name": "access_key", "type": "string", "options": {"sensitive": True}},
            ],
            "logs+metrics+traces": {"exporters": "- archive: {}\n"},
        },
    ),
    resource("ProcessorType", "keep", {"parameters": [{"name": "least", "type": "int", "default": 9}]}),
    resource("ConnectorType", "join", {"parameters": [{"name": "by", "type": "strings"}]}),
    resource("ExtensionType", "health", {"parameters": [{"name": "port", "type": "int", "default": 13133}]}),
    resource("ProcessorType", "bare", {}),
    resource("ProcessorType", "nothing", {"parameters": [], "supportedPlatforms": []}),
]
COMPONENTS = [
    resource(
        "Source",
        "tailing",
        {
            "type": "tail:1",
            "parameters": values(path="/var/log/a", mode="remote", host="a.example.com", token="canary-t"),
        },
    ),
    resource(
        "Source", "maps", {"type": "tail", "parameters": values(path="a", headers={"X-Token": "canary-m"}, tags=[])}
    ),
    resource("Source", "odd", {"type": "odd", "parameters": values(duration=7, any=None, on="true", count="8080")}),
    resource("Source", "shadowed", {"type": "file", "parameters": values(include=["/var/log/*.log"])}),
    resource("Source", "taking", {"type": "otlp", "parameters": [], "processors": []}),
    resource("Source", "off", {"type": "otlp", "disabled": True}),
    resource("Processor", "keep", {"type": "keep", "parameters": values(least=5)}),
    resource("Processor", "bare", {"type": "bare"}),
    resource("Connector", "join", {"type": "join", "parameters": values(by=["a", "b"])}),
    resource("Extension", "health", {"type": "health"}),
    resource(
        "Extension",
        "disk",
        {"type": "file_storage", "parameters": values(directory="other", sync="none", max_bytes=8388608)},
    ),
    resource("Destination", "archive", {"type": "archive", "parameters": values(bucket="b", access_key="canary-a")}),
    resource(
        "Destination",
        "marked",
        {
            "type": "archive",
            "parameters": [{"name": "bucket", "value": "canary-marked", "sensitive": True}],
            "processors": [{"name": "keep"}, {"type": "keep", "parameters": values(least=1), "processors": []}],
        },
    ),
    resource("Fleet", "all", {"selector": {"matchLabels": {}}}),
    resource("Fleet", "web", {"selector": {"matchLabels": {"role": "web", "empty": ""}}}),
    resource("AgentVersion", "v1", {"anything": [None, "", {}, []], "download": {"linux": None}}),
]
WEBHOOKS = [
    webhook("backlog", path="/in/take", **PATIENT, headers={"Authorization": "${env:DESTINATION_DEFAULT__TOKEN}"}),
    webhook(
        "refusing", path="/v1/in?tenant=7", **NO_RETRY, headers={"X-Token": "canary-clear", "X-File": "${file:token}"}
    ),
    webhook("elsewhere", persistent_queue_storage="disk", format="single", **PATIENT),
    webhook("endless", **{**PATIENT, "retry_on_failure_max_elapsed_time": 0}),
    webhook(
        "crossed",
        retry_on_failure_initial_interval=900,
        retry_on_failure_max_interval=600,
        retry_on_failure_max_elapsed_time=300,
    ),
    webhook("numbers", port="8080", timeout=5.0, sending_queue_num_consumers="1", **PATIENT),
    webhook("no-queue", sending_queue_enabled=False),
    webhook("in-memory", persistent_queue_enabled=False, **PATIENT),
    webhook("dropping", on_full="drop_newest", sending_queue_queue_size=1, **PATIENT),
    webhook("nightly", delivery_schedule="0 3 29 feb *", delivery_window=1, delivery_timezone="Europe/Berlin"),
    webhook("unused"),
    resource("Destination", "switched-off", {**webhook("switched-off")["spec"], "disabled": True}),
]
CONFIGURATIONS = [
    delivers("delivering", "backlog", "refusing", "elsewhere", "endless", "crossed", "numbers", "nightly"),
    delivers("remembering", "in-memory"),
    delivers("full", "dropping"),
    delivers("waiting", "no-queue"),
    delivers(
        "by-name", "switched-off", "unused", sources=[{"name": "taking"}], selector={"matchLabels": {"line": "none"}}
    ),
    delivers(
        "in-place",
        destinations=[{"id": "hook", **webhook("in-place", **PATIENT)["spec"], "displayName": "In place"}],
        parameters=[{"name": "own", "value": "canary-own", "sensitive": True}, {"name": "open", "value": None}],
    ),
    delivers("processed", "backlog", processors=[{"name": "keep"}]),
    delivers("routed", "backlog", sources=[{"type": "otlp", "routes": {"logs": [{"components": ["a"]}]}}]),
    delivers("unrouted", "backlog", sources=[{"type": "otlp", "routes": {}}]),
    delivers("off", "backlog", sources=[{"name": "off"}]),
    resource("Configuration", "raw", {"contentType": "text/yaml", "raw": "receivers:\n  otlp: {}\n"}),
    resource(
        "Configuration", "raw-no-yaml", {"raw": "receivers: [\n\t: {{ no }}: yaml", "selector": {"matchLabels": {}}}
    ),
    resource("Configuration", "raw-empty", {"raw": "", "processors": [], "connectors": [], "extensions": []}),
    resource("Configuration", "empty", {}),
    resource(
        "Configuration",
        "empty-lists",
        {"sources": [], "processors": [], "connectors": [], "destinations": [], "extensions": [], "parameters": []},
    ),
    resource(
        "Configuration",
        "whole",
        {
            "contentType": "text/yaml",
            "measurementInterval": "1m",
            "sources": [
                {"name": "tailing:latest", "processors": [{"name": "keep"}]},
                {"name": "maps", "disabled": True},
            ],
            "connectors": [{"name": "join"}],
            "destinations": [{"name": "archive:3", "processors": []}],
            "extensions": [{"name": "health"}],
            "selector": {"matchLabels": {"role": "web"}},
            "rollout": {"type": "standard", "parameters": [None]},
        },
    ),
]
DEPRECATED = meta(resource("ProcessorType", "old", {"version": "1"}), deprecated=True, stability="deprecated")
LABELLED = meta(
    resource("Fleet", "labelled", {"selector": {"matchLabels": {"a": "b"}}}),
    id="my-own-id",
    displayName="Labelled",
    description="With everything.",
    icon="/icons/a.svg",
    labels={"team": "web", "example.com/empty": "", "service/prune": "disabled"},
    additionalInfo={"message": "Read this.", "documentation": [{"text": "There", "url": "https://example.com"}]},
    blueprintTags={"a": ["b"], "c": []},
)
EMPTY_MEMBERS = meta(
    resource("Fleet", "empty-members", {"selector": {"matchLabels": {}}}), displayName="", description="", labels={}
)
NULL_SPEC = {**resource("AgentVersion", "null-spec", {}), "spec": None}
NULL_LABELS = meta(resource("AgentVersion", "null-labels", {}), labels=None)
USES_OLD = [DEPRECATED, resource("Processor", "uses-old", {"type": "old"})]

# Stored by acceptInvalid alone.
INCOMPLETE = [
    resource("Destination", "no-host", {"type": "webhook", "parameters": values(port=70000)}),
    resource(
        "Destination", "unknown", {"type": "webhook", "parameters": values(hostname="a.example.com", verbs="canary-v")}
    ),
    resource("Source", "missing", {"type": "tail", "parameters": values(unknown={"a": "canary-u"}, every=0)}),
    delivers("not-ready", "no-host"),
    delivers("unknown-parameter", "unknown"),
]
# Accepted or not as this version has it: what is stored is kept as it is.
PERHAPS = [
    webhook("bare-path", path="v1/in"),
    meta(resource("Fleet", "nulls", {"selector": {"matchLabels": {}}}), description=None, icon=None),
    resource("Processor", "null-parameters", {"type": "keep", "parameters": None, "disabled": None}),
    resource("Configuration", "null-lists", {"sources": None, "selector": None, "raw": None}),
    resource(
        "ProcessorType",
        "circle",
        {
            "parameters": [
                {"name": "a", "type": "bool", "relevantIf": [{"name": "b", "operator": "equals", "value": False}]},
                {"name": "b", "type": "bool", "relevantIf": [{"name": "a", "operator": "equals", "value": False}]},
            ]
        },
    ),
    resource("SourceType", "nulls", {"version": None, "parameters": None, "logs": None}),
    resource(
        "Extension", "unknown-parameter", {"type": "file_storage", "parameters": values(directory="x", fsync="y")}
    ),
]
PLAIN = [*TYPES, *COMPONENTS, *WEBHOOKS, *CONFIGURATIONS, *USES_OLD, LABELLED, EMPTY_MEMBERS, NULL_SPEC, NULL_LABELS]


def fleet(name: str, **labels: str) -> dict[str, Any]:
    """A small resource."""
    return meta(resource("Fleet", name, {"selector": {"matchLabels": {"fleet": name}}}), labels=labels)


def files(documents: Sequence[Document]) -> dict[str, str]:
    """A JSON file for each, as JSON is YAML as well: half of them say so in their names."""
    told = {}
    for place, each in enumerate(documents):
        name = f"{each['kind'].lower()}/{each['metadata']['name']}"
        told[name + (".json" if place % 2 else ".yaml")] = json.dumps(each, indent=1)
    return told


SEVERAL = """# Several in a file, as people write them.
apiVersion: service/v1
kind: Source
metadata:
  name: by-hand
  labels:
    team: web
  description: >-
    Folded
    text
spec:
  type: tail
  parameters:
    - name: path
      value: /var/log/by-hand.log
    - {name: every, value: 0o17}
    - name: token
      value: ${file:token}
---
---
apiVersion: service/v1
kind: Fleet
metadata: {name: by-hand, labels: }
spec:
---
just: a document
"""
ALIASES = """apiVersion: service/v1
kind: AgentVersion
metadata: {name: aliases}
spec:
  one: &one {a: [1.0, 1e3, 0.1, -0, 18446744073709551615, 0x1F, 2026-11-23, yes, ~]}
  two: *one
  text: "Zo\u00eb \U0001f600 e\u0301 \\u2028"
"""
FIRST: Mapping[str, Mapping[str, str]] = {
    "telemetry": {
        **files(PLAIN),
        "several.yml": SEVERAL,
        "bom.yaml": "\ufeffkind: Fleet\r\napiVersion: telemetry.example/v1\r\nmetadata: {name: bom}\r\nspec: {}\r\n",
        "aliases.yaml": ALIASES,
        "drafts/x.yaml": "kind: [",
        ".serviceignore": "drafts/\n",
        "foreign.yaml": "apiVersion: v1\nkind: Pod\n",
    },
    "lenient": files([TAIL, *INCOMPLETE, fleet("fine"), fleet("twice"), PERHAPS[0], PERHAPS[-1]]),
    "fleets": files([fleet(f"held-{number:02}") for number in range(12)]),
    "paused": files([fleet("drifted"), fleet("paused"), fleet("let-go")]),
    "broken": files(
        [fleet("held-00"), fleet("broken-1"), fleet("broken-2"), fleet("protected", **{"service/prune": "disabled"})]
    ),
    "gone": files([fleet("left-alone")]),
    "dropped": files([fleet("dropped-1"), fleet("dropped-2")]),
    "spent": files([fleet(f"spent-{number:02}") for number in range(9)]),
}


def write(repository: Repository, content: Mapping[str, str]) -> None:
    """Write files."""
    for path, text in content.items():
        repository.write(path, text)


def drop(service: Daemon, folder: Path) -> None:
    """Follow a repository no more that was suspended: what it owned is the API's."""
    done(service.post("/v1/repositories/dropped/suspend", {"reason": "it goes"}))
    service.configure(states.followed(folder, *(name for name in states.REPOSITORIES if name not in states.DROPPED)))
    assert service.reload().startswith("Reloaded the settings")


def git_goes_on(service: Daemon, repositories: Mapping[str, Repository]) -> None:
    """Second versions, deletions that are held and not, files that cannot be read, an invalid one, a suspension."""
    telemetry = repositories["telemetry"]
    changed = webhook(
        "backlog", path="/in/take", **PATIENT, headers={"Authorization": "${env:DESTINATION_DEFAULT__TOKEN}"}
    )
    write(telemetry, files([meta(changed, description="Second")]))
    telemetry.remove("fleet/labelled.json")
    telemetry.remove("fleet/labelled.yaml")
    [web] = telemetry.path.glob("fleet/web.*")
    invalid = json.dumps(meta(fleet("web"), surprise=1))  # what is stored stays
    write(telemetry, {f"fleet/{web.name}": invalid, "fleet/extra.yaml": json.dumps(fleet("extra"))})
    service.run_of("telemetry", telemetry.commit("Second"))
    [joined] = telemetry.path.glob("connectortype/join.*")
    telemetry.remove(f"connectortype/{joined.name}")  # in use, so it stays
    telemetry.move("fleet/extra.yaml", "fleet/moved.yaml")
    telemetry.remove("processor/bare.json")
    telemetry.remove("processor/bare.yaml")
    service.run_of("telemetry", telemetry.commit("Third"))
    fleets = repositories["fleets"]
    for number in range(3, 12):
        for ending in ("json", "yaml"):
            fleets.remove(f"fleet/held-{number:02}.{ending}")
    service.run_of("fleets", fleets.commit("Delete most"))
    spent = repositories["spent"]
    for number in range(3):
        for ending in ("json", "yaml"):
            spent.remove(f"fleet/spent-{number:02}.{ending}")
    service.run_of("spent", spent.commit("Delete three"))
    for ending in ("json", "yaml"):
        spent.remove(f"fleet/spent-04.{ending}")
    service.run_of("spent", spent.commit("Delete a fourth, which is held within a day"))
    broken = repositories["broken"]
    for ending in ("json", "yaml"):
        broken.remove(f"fleet/broken-2.{ending}")
        broken.remove(f"fleet/protected.{ending}")
    broken.write("fleet/unreadable.yaml", "kind: Fleet\n  name: [\n")
    service.run_of("broken", broken.commit("Break a file"))
    done(service.post("/v1/repositories/paused/suspend", {"reason": "for the test"}))
    [drifted] = service.apply(meta(fleet("drifted"), description="Drifted"), project="edge")
    assert drifted["status"] == "configured", drifted
    done(service.delete("/v1/resources/Fleet/let-go", project="edge"))
    shutil.move(repositories["gone"].path, repositories["gone"].path.with_name("moved-away"))
    service.post("/v1/repositories/gone/reconcile")
    service.state_of("gone", "unreachable")
    shutil.move(repositories["gone"].path.with_name("moved-away"), repositories["gone"].path)


def through_the_api(service: Daemon) -> None:
    """The same kinds of things in another project, through the API."""
    known = {
        (kind, one["metadata"]["name"]) for kind in states.KINDS for one in service.resources(kind, project="shop")
    }
    mine = [one for one in PLAIN if (one["kind"], one["metadata"]["name"]) not in known and one != DEPRECATED]
    mine = json.loads(json.dumps(mine).replace("DESTINATION_DEFAULT", "DESTINATION_SHOP"))
    report(service.apply({**DEPRECATED, "metadata": {"name": "old"}}, *mine, project="shop"))
    report(service.apply(DEPRECATED, project="shop"))
    lax = [meta(one, name="api-" + one["metadata"]["name"]) for one in [*INCOMPLETE[:3], *PERHAPS]]
    report(service.apply(*lax, query="?acceptInvalid=true", project="shop"))
    again = [meta(fleet("again"), description=str(number)) for number in range(3)]
    for each in again:
        assert service.apply(each, project="shop")[0]["status"] in STORED
    done(service.delete("/v1/resources/Fleet/again", project="shop"))
    assert service.apply(again[0], project="shop")[0]["status"] == "created"
    secret = resource("Destination", "redacted", {"type": "archive", "parameters": values(bucket="canary-bucket")})
    for each in (secret, meta(secret, description="Second")):
        assert service.apply(each, project="shop")[0]["status"] in STORED, each
    clear = [meta(fleet("redacted"), description=text) for text in ("canary-written-in-clear", "Nothing")]
    for each in clear:
        assert service.apply(each, project="shop")[0]["status"] in STORED, each
    done(service.post("/v1/Fleet/redacted/history/redact", {"value": "canary-written-in-clear"}, project="shop"))


def report(updates: Sequence[Mapping[str, Any]]) -> None:
    """Tell the maker what this version does not store."""
    for update in updates:
        if update["status"] not in STORED:
            told = {**update, "resource": update.get("resource", {}).get("metadata", {}).get("name")}
            sys.stdout.write(f"not stored: {json.dumps(told)[:400]}\n")


# Log records and notifications


def logs(service: Daemon, sender: str) -> None:
    """A backlog and dead letters."""
    for number in range(3):
        answer = send_logs(service, f"canary-record-{number}", "another", label="delivering", key=sender)
        assert (answer.status, answer.body) == (200, {}), answer
    assert send_logs(service, "canary-in-place", label="in-place", key=sender).status == 200
    assert send_logs(service, "canary-full", label="full", key=sender).status == 200

    def died() -> bool:
        shown = service.get("/v1/destinations/refusing/delivery").body["delivery"]
        return int(shown["deadLetters"]["records"]) == 6

    daemons.until(died, "records are given up")


def orphan(service: Daemon) -> None:
    """A queue whose Destination is gone, and one that nothing delivers to any more."""
    sender = {"name": "orphans", "project": "shop", "role": "viewer", "scopes": ["logs"]}
    logs_key = str(done(service.post("/v1/api-keys", sender)).body["apiKey"]["key"])
    ends = delivers("ends", "orphan", "left")
    assert {
        one["status"]
        for one in service.apply(webhook("orphan", **PATIENT), webhook("left", **PATIENT), ends, project="shop")
    } == {"created"}

    def is_routed() -> bool:
        shown = service.get("/v1/deliveries", project="shop").body
        return {"orphan", "left"} <= {one["destination"] for one in shown.get("deliveries", ())}

    daemons.until(is_routed, "they are delivered to")
    assert send_logs(service, "canary-orphan", label="ends", key=logs_key).status == 200
    done(service.delete("/v1/resources/Configuration/ends", project="shop"))
    done(service.delete("/v1/resources/Destination/orphan", project="shop"))


def told(service: Daemon) -> None:
    """Notifications are open, and somebody read one and dismissed another."""
    wanted = {"PruneHeld", "DeadLetters", "ResourcesInvalid", "ConfigurationIncomplete", "ResourceDeprecated"}

    def open_ones() -> set[str]:
        return {one["type"] for one in states.notifications(service, {"root": PEOPLE["root"]}).values()}

    daemons.until(lambda: open_ones() >= wanted, f"{wanted} are open")
    found = states.notifications(service, {"root": PEOPLE["root"]})
    for status, kind in (("read", "DeadLetters"), ("dismissed", "PruneHeld")):
        chosen = min(identifier for identifier, one in found.items() if one["type"] == kind)
        body = json.dumps({"userStatus": status}).encode()
        done(service.ask("POST", f"/v1/api/notifications/{chosen}/status", body, states.basic("root", PEOPLE["root"])))


if __name__ == "__main__":
    main()
