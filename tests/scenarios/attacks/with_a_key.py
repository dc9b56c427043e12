"""Attacks by somebody who may apply resources of a project, and may not read its secrets."""

import json
import re

from tests.scenarios.attacks.scene import NAMELESS, SAFE, SECRET, VAULT, Scene, component, resource
from tests.scenarios.attacks.table import Attack, Attempt, Holds

NONE_HERE = (
    "`(sensitive)` stands for a stored secret, and none is found here by a unique `id`, `name` or `displayName`; "
    "send the value itself"
)
MASK = "(sensitive)"
NAME = "must be 1 to 63 letters, digits, `-`, `_` or `.`, and begin and end with a letter or digit"
ID = "must be 1 to 128 letters, digits, `-`, `_` or `.`, and begin with a letter or digit"
TAKEN = "another resource of the project has this id; leave it out"
BAD_NAME = f"400 The name in the path {NAME}."
NO_PATH = "404 There is no such path; /openapi.json lists those that there are."
NO_KIND = "404 There is no such kind; the kinds are listed in /openapi.json."
MINE = "mine"
MOMENT = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+Z")


def applying(*resources: object, query: str = "", role: str = "user") -> Attempt:
    """An apply."""
    return lambda scene: scene.apply(*resources, query=query, role=role)


def asking(method: str, path: str, body: object = None) -> Attempt:
    """A request."""
    return lambda scene: scene.ask(method, path, body)


def searching(query: str) -> Attempt:
    """A search: how many rows it finds."""

    def attempt(scene: Scene) -> str:
        answer = scene.daemon.get(f"/v1/resources?{query}")
        return f"{answer.status}: {len(answer.body['resources'])} rows"

    return attempt


def hook(**parameters: object) -> Attempt:
    """The victim with its mask, other parameters changed."""
    as_shown = {"hostname": "logs.example.org", "path": "/in", "headers": {"Authorization": MASK}}
    return applying(resource("Destination", "hook", component("webhook", **{**as_shown, **parameters})))


def hook_moved(parameter: str) -> str:
    """Return what is said when a webhook goes elsewhere with its mask."""
    rest = f"send the value itself, since `{parameter}` changed, which may say where it is sent"
    return f"202 invalid: /spec/parameters/2/value/Authorization: {rest}"


def safe(type_: str = "vault", **parameters: object) -> Attempt:
    """The other victim, changed."""
    as_shown = {"address": "https://safe.example.org", "note": "x", "token": MASK}
    return applying(resource("Destination", "safe", component(type_, **{**as_shown, **parameters})))


def inline(*components: object) -> Attempt:
    """The victim with components in it, changed."""
    return applying(resource("Configuration", "fleet-wide", {"destinations": list(components)}))


def vault(token: object = MASK, **rest: object) -> dict[str, object]:
    """An inline component."""
    return {**component("vault", token=token), **rest}


def webhook(**parameters: object) -> Attempt:
    """A webhook of the attacker's own."""
    return applying(resource("Destination", MINE, component("webhook", **{"hostname": "e.example", **parameters})))


def a_type_that_calls_it_open(scene: Scene) -> str:
    """Redefine the victim's type, read the victim, its list and its history, and put the type back."""
    *others, token = VAULT["spec"]["parameters"]
    opened = VAULT | {"spec": {"parameters": [*others, {**token, "options": {}}]}}
    assert scene.apply(opened, role="admin") == "202 configured"
    paths = ("resources/Destination/safe", "resources/Destination", "Destination/safe/history")
    seen = [json.dumps(scene.daemon.get(f"/v1/{path}").body) for path in paths]
    again = scene.apply(
        resource("Destination", "safe", component("vault", address="https://safe.example.org", note="y", token=MASK))
    )
    assert scene.apply(VAULT, role="admin") == "202 configured"
    return f"read: {any(SECRET in text for text in seen)}; {again}"


def guesses(scene: Scene) -> str:
    """A dry run with the right and with a wrong guess, byte by byte."""

    def guess(token: str) -> bytes:
        guessed = resource("Destination", "safe", {**SAFE, "parameters": [*SAFE["parameters"][:2], _token(token)]})
        answer = scene.daemon.post("/v1/apply?dryRun=true", {"resources": [guessed]})
        return json.dumps([answer.status, answer.body]).encode()

    right, wrong = guess(SECRET), guess(SECRET[::-1])
    same = MOMENT.sub(b"then", right) == MOMENT.sub(b"then", wrong)
    return f"equal: {same}; hash shown: {b'hash' in right}"


def hashes(scene: Scene) -> str:
    """The hash of a resource of one's own with a guess, beside the victim's: the same spec, another secret."""
    names = ("guess-1", "guess-2")
    tokens = dict(zip(names, (SECRET, SECRET[::-1]), strict=True))
    specs = {name: {**SAFE, "parameters": [*SAFE["parameters"][:2], _token(tokens[name])]} for name in names}
    answer = scene.daemon.post(
        "/v1/apply?dryRun=true", {"resources": [resource("Destination", name, specs[name]) for name in names]}
    )
    shown = ["hash" in update["resource"]["metadata"] for update in answer.body["updates"]]
    return f"{answer.status} hashes shown: {shown}"


def same_secret(scene: Scene) -> str:
    """A stored resource of one's own with the same spec and secret, for a while: whether the hashes are equal."""
    victim = scene.daemon.resource("Destination", "safe")
    assert victim is not None
    (update,) = scene.daemon.apply(resource("Destination", "twin", SAFE))
    scene.daemon.delete("/v1/resources/Destination/twin")
    return f"equal: {update['resource']['metadata']['hash'] == victim['metadata']['hash']}"


def redactions(scene: Scene) -> str:
    """A redaction of a right and of a wrong guess, dry and real."""
    told = set()
    for query in ("?dryRun=true", ""):
        for guess in (SECRET, SECRET[::-1]):
            answer = scene.daemon.post(f"/v1/Destination/safe/history/redact{query}", {"value": guess})
            told.add(f"{answer.status} versions {answer.body['versions']}, places {answer.body['places']}")
    return "\n".join(sorted(told))


def _token(value: str) -> dict[str, str]:
    return {"name": "token", "value": value}


def _tagged(name: str, attempt: Attempt, answer: str | re.Pattern[str]) -> Attack:
    return Attack(name, Holds.KEY, attempt, answer)


_SHADOWING = (
    _tagged(
        "shadow the type of webhooks so that headers are no secret",
        applying(
            resource("DestinationType", "webhook", {"parameters": [{"name": "headers", "type": "map"}]}), role="admin"
        ),
        "202 forbidden",
    ),
    _tagged(
        "shadow the type of queues so that a directory is anywhere",
        applying(
            resource("ExtensionType", "file_storage", {"parameters": [{"name": "directory", "type": "string"}]}),
            role="admin",
        ),
        "202 forbidden",
    ),
    _tagged(
        "replace the built-in queue",
        applying(resource("Extension", "file_storage_persistent_queue", component("file_storage"))),
        "202 forbidden",
    ),
    _tagged(
        "delete the built-in queue",
        asking("DELETE", "/v1/resources/Extension/file_storage_persistent_queue"),
        re.compile(r"403 Extension file_storage_persistent_queue: forbidden: .*built in.*"),
    ),
    _tagged(
        "a user changes a type",
        applying(VAULT | {"spec": {"parameters": []}}),
        "202 forbidden",
    ),
    _tagged(
        "a user brings a type",
        applying(resource("ProcessorType", MINE, {"parameters": []})),
        "202 forbidden",
    ),
)

_PLACEHOLDERS = (
    _tagged("placeholder with a changed host", hook(hostname="evil.example.org"), hook_moved("hostname")),
    _tagged("placeholder with a changed path", hook(path="/out"), hook_moved("path")),
    _tagged("placeholder with a changed port", hook(port=9), hook_moved("port")),
    _tagged("placeholder with a changed scheme", hook(scheme="http"), hook_moved("scheme")),
    _tagged(
        "placeholder without the check of certificates",
        hook(insecure_skip_verify=True),
        hook_moved("insecure_skip_verify"),
    ),
    _tagged(
        "placeholder with another Host header",
        hook(headers={"Authorization": MASK, "Host": "evil.example.org"}),
        hook_moved("headers/Host"),
    ),
    _tagged(
        "placeholder under another header's name",
        hook(headers={"X-Mine": MASK}),
        f"202 invalid: /spec/parameters/2/value/X-Mine: {NONE_HERE}",
    ),
    _tagged(
        "placeholder in a resource of another name",
        webhook(hostname="evil.example.org", headers={"Authorization": MASK}),
        f"202 invalid: /spec/parameters/1/value/Authorization: {NONE_HERE}",
    ),
    _tagged(
        "placeholder in a parameter that is shown",
        safe(note=MASK, token="x"),
        f"202 invalid: /spec/parameters/1/value: {NONE_HERE}",
    ),
    _tagged(
        "placeholder under another type",
        safe("custom"),
        re.compile(
            r"202 invalid: (?s:.*)/spec/parameters/2/value: send the value itself, since the type of its "
            r"component changed"
        ),
    ),
    _tagged(
        "placeholder with an address of a type nobody knows",
        safe(address="https://evil.example.org"),
        "202 invalid: /spec/parameters/2/value: send the value itself, since `address` changed, which may say "
        "where it is sent",
    ),
    _tagged(
        "placeholder in a renamed component",
        inline(vault(id="third"), NAMELESS[1]),
        f"202 invalid: /spec/destinations/0/parameters/0/value: {NONE_HERE}",
    ),
    _tagged(
        "placeholder in a component without a name",
        inline(vault()),
        f"202 invalid: /spec/destinations/0/parameters/0/value: {NONE_HERE}",
    ),
    _tagged(
        "placeholder in two components of one name",
        inline(vault(id="first"), vault(id="first")),
        "\n".join(
            f"{'202 invalid: ' if at == 0 else ''}/spec/destinations/{at}/parameters/0/value: {NONE_HERE}"
            for at in (0, 1)
        ),
    ),
    _tagged(
        "placeholder in components that changed places",
        inline(
            {**component("vault", address="https://evil.example.org", token=MASK), "id": "second"}, vault(id="first")
        ),
        "202 invalid: /spec/destinations/0/parameters/1/value: send the value itself, since `address` changed, "
        "which may "
        "say where it is sent",
    ),
    _tagged(
        "a type that drops `sensitive`",
        a_type_that_calls_it_open,
        "read: False; 202 invalid: /spec/parameters/2/value: send the value itself, since `note` changed, which "
        "may say "
        "where it is sent",
    ),
)

_GUESSES = (
    _tagged("dry runs that compare a guess", guesses, "equal: True; hash shown: False"),
    _tagged("hashes of guesses in dry runs", hashes, "202 hashes shown: [False, False]"),
    _tagged("the hash of the same secret in a resource of one's own", same_secret, "equal: False"),
    _tagged("a redaction that tells whether a guess is right", redactions, "200 versions [], places 0"),
)

_NAMES = (
    _tagged("id ../../x", applying(resource("Fleet", MINE, id="../../x")), f"202 invalid: /metadata/id: {ID}"),
    _tagged(
        "an id of 129 characters", applying(resource("Fleet", MINE, id="x" * 129)), f"202 invalid: /metadata/id: {ID}"
    ),
    _tagged(
        "the id of another resource",
        applying(resource("Fleet", MINE, id="id-of-safe")),
        f"202 invalid: /metadata/id: {TAKEN}",
    ),
    _tagged(
        "one id for two resources",
        applying(resource("Fleet", MINE, id="one"), resource("Fleet", "other", id="one")),
        re.compile(r"202 invalid: /metadata/id: [^\n]+\ninvalid: /metadata/id: [^\n]+"),
    ),
    _tagged(
        "name ../../etc/passwd", applying(resource("Fleet", "../../etc/passwd")), f"202 invalid: /metadata/name: {NAME}"
    ),
    _tagged("a name with a NUL", applying(resource("Fleet", "a\0b")), f"202 invalid: /metadata/name: {NAME}"),
    _tagged(
        "a name that ends in a line end", applying(resource("Fleet", "mine\n")), f"202 invalid: /metadata/name: {NAME}"
    ),
    _tagged(
        "a name that looks like another's",
        applying(resource("Destination", "h\u043e\u043ek", component("custom"))),
        f"202 invalid: /metadata/name: {NAME}",
    ),
    _tagged("name __class__", applying(resource("Fleet", "__class__")), f"202 invalid: /metadata/name: {NAME}"),
    _tagged(
        "a key __class__ in a document",
        applying(resource("Fleet", MINE) | {"__class__": {}}),
        "202 invalid: /__class__: is not a known field; the fields here are `apiVersion`, `kind`, `metadata`, "
        "`spec`, `status`",
    ),
    _tagged(
        "a key __proto__ in a spec",
        applying(resource("Destination", MINE, {"type": "custom", "__proto__": {}})),
        "202 invalid: /spec/__proto__: is not a known field; the fields here are `type`, `parameters`, "
        "`processors`, `disabled`",
    ),
    _tagged("history of ../../store.db", asking("GET", "/v1/Destination/../../store.db/history"), NO_PATH),
    _tagged("history of ..%2f..%2fstore.db", asking("GET", "/v1/Destination/..%2f..%2fstore.db/history"), NO_PATH),
    _tagged("history of ..", asking("GET", "/v1/Destination/%2e%2e/history"), BAD_NAME),
    _tagged("get with %2f in a name", asking("GET", "/v1/resources/Destination/..%2f..%2fetc%2fpasswd"), NO_PATH),
    _tagged("get with a NUL in a name", asking("GET", "/v1/resources/Destination/hook%00"), BAD_NAME),
    _tagged("get a kind ../", asking("GET", "/v1/resources/..%2f..%2fetc"), NO_PATH),
    _tagged("get the kind __class__", asking("GET", "/v1/resources/__class__"), NO_KIND),
    _tagged("get the name __class__", asking("GET", "/v1/resources/Destination/__class__"), BAD_NAME),
    _tagged("references of ..%2f", asking("GET", "/v1/resources/Fleet/..%2f..%2fx/references"), NO_PATH),
    _tagged("references of SQL", asking("GET", "/v1/resources/Fleet/a%27%20or%201%3D1/references"), BAD_NAME),
    _tagged("a search for SQL", searching("q=%27%20or%201%3D1%20--"), "200: 0 rows"),
    _tagged("a search for each name by %", searching("q=%25"), "200: 0 rows"),
    _tagged("a search for an owner by SQL", searching("owner=api%27%20or%20%271%27%3D%271"), "200: 0 rows"),
    _tagged(
        "a search after ../",
        asking("GET", "/v1/resources?after=..%2f..%2fstore.db"),
        "400 The query parameter `after` is not a kind and a name with `/` between, as `next` of an answer.",
    ),
    _tagged(
        "SQL in a selector",
        asking("GET", "/v1/resources/Destination?selector=a%3D%27%3B%20drop%20table%20version"),
        "400 The query parameter `selector` is not a label selector: the label's value at character 3 must be "
        "empty or 1 to "
        "63 letters, digits, `-`, `_` or `.`, and begin and end with a letter or digit.",
    ),
    _tagged(
        "a selector of 5,000 characters",
        asking("GET", "/v1/resources/Destination?selector=" + "a" * 5_000),
        "400 The query parameter `selector` is not a label selector: it is over 4,096 characters long.",
    ),
)

_BODIES = (
    _tagged(
        "5,000 levels of JSON",
        asking("POST", "/v1/apply", b'{"resources":' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
        "400 body:1:115: is nested deeper than 102 levels; flatten it",
    ),
    _tagged(
        "a number of a million digits",
        asking("POST", "/v1/apply", b'{"resources":[{"x":' + b"9" * 1_000_000 + b"}]}"),
        "400 body:1:20: the integer is outside -9223372036854775808 to 18446744073709551615; quote it to make it text",
    ),
    _tagged(
        "infinity",
        asking("POST", "/v1/apply", b'{"resources":[{"x":1e999}]}'),
        "400 body:1:20: the number is too large for a 64-bit float; quote it to make it text",
    ),
    _tagged(
        "one key twice, so that two readers read two things",
        asking("POST", "/v1/apply", b'{"resources":[],"resources":[{}]}'),
        "400 body:1:17: the key `resources` is there twice; remove one",
    ),
    _tagged(
        "too many resources", applying(*[{}] * 10_001), "413 The body holds 10,001 resources, over the limit of 10,000."
    ),
    _tagged(
        "a dry run that is spelled wrong",
        asking("POST", "/v1/apply?dryrun=true", {"resources": [resource("Fleet", MINE)]}),
        "400 The query parameter `dryrun` is not known here: there are `acceptInvalid`, `atomic`, `dryRun`, `strict`.",
    ),
    _tagged(
        "a dry run that is and is not one",
        asking("POST", "/v1/apply?dryRun=true&dryRun=false", {"resources": [resource("Fleet", MINE)]}),
        "400 The query parameter `dryRun` is given more than once.",
    ),
)

MANAGED = "Destination web: forbidden: managed by the repository platform; change it there"

_OWNERSHIP = (
    _tagged(
        "take over a repository's resource",
        applying(resource("Destination", "web", component("custom"))),
        "202 forbidden",
    ),
    _tagged(
        "take it over by its id",
        applying(resource("Destination", MINE, component("custom"), id="id-of-web")),
        re.compile(rf"202 invalid: (?s:.*)/metadata/id: {re.escape(TAKEN)}"),
    ),
    _tagged("delete a repository's resource", asking("DELETE", "/v1/resources/Destination/web"), f"403 {MANAGED}"),
    _tagged("another project's name with ../", asking("GET", "/v1/resources/Fleet/..%2f..%2fother"), NO_PATH),
)

ATTACKS = (*_SHADOWING, *_PLACEHOLDERS, *_GUESSES, *_NAMES, *_BODIES, *_OWNERSHIP)
