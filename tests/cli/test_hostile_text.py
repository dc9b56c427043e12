"""Every command and the log, before a repository whose names, texts and errors try to act on a terminal."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.cli import main as main_module
from reconciler.model import yaml_documents
from tests import daemons, hostile_text
from tests.cli.conftest import PROGRAM, Service
from tests.cli.terminals import OURS, Terminal, terminal
from tests.daemons import Daemon
from tests.hostile_text import EVERYTHING
from tests.repositories import Repository

FORGED = "06:12:00 forged"  # begins a line of its own in EVERYTHING
TURNED = "ma\u202e\u0085in"  # what git takes for the name of a branch
SECONDS = 60.0


@dataclass
class Scene:
    """A daemon before hostile repositories, and their folders."""

    daemon: Daemon
    source: Repository
    folder: Path
    commit: str


def document(name: object, kind: str = "Destination", **spec: object) -> dict[str, Any]:
    metadata = {"name": name, "displayName": EVERYTHING, "description": EVERYTHING, "labels": {"team": "edge"}}
    return {"apiVersion": "service/v1", "kind": kind, "metadata": metadata, "spec": {"type": "otlp", **spec}}


def written(*documents: Any) -> str:
    return yaml_documents.to_yaml(documents)


def fill(source: Repository) -> str:
    """Commit what is hostile in each place that a pusher may choose; the commit."""
    good = document("good")
    labelled, typed, unknown = document("labelled"), document("typed", type=EVERYTHING), document("unknown")
    labelled["metadata"]["labels"] = {EVERYTHING: EVERYTHING}
    unknown[EVERYTHING] = 1
    source.write("good.yaml", written(good))
    source.write(f"{EVERYTHING}/{EVERYTHING}.yaml", written(document("hidden")))
    source.write("un\u200bseen\u00ad.yaml", written(document("twice"), typed))  # no control, so it counts as a file
    source.write(
        "others.yaml", written(labelled, unknown, document("twice"), document(EVERYTHING), document("x", "\x1b"))
    )
    source.write("named.yaml", written(document("named", parameters=[{"name": EVERYTHING, "value": EVERYTHING}])))
    source.write("keys.yaml", f"{yaml_key(EVERYTHING)}: 1\n{yaml_key(EVERYTHING)}: 1\n")
    source.write("control.yaml", f"a: {EVERYTHING}\n")
    source.write("\udc9b31m.yaml", written(document("bytes")))
    source.link("link\u202e.yaml", EVERYTHING)
    source.commit(EVERYTHING)
    # What an author is called is taken as it is given, but for its ends of lines.
    author = EVERYTHING.replace("\n", "")
    source.git("commit", "--amend", "--quiet", f"--author={author} <{author}>", f"--message={EVERYTHING}")
    source.git("branch", TURNED)
    return source.head()


def yaml_key(text: str) -> str:
    return yaml_documents.to_yaml([{text: 1}]).removesuffix(": 1\n").removeprefix("? ").removesuffix("\n: 1")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("scene")
    source = Repository.init(folder / "source")
    commit = fill(source)
    turned = Repository.init(folder / "turned")
    turned.commit()
    turned.git("branch", "--move", TURNED)
    broken = Repository.init(folder / "broken")
    broken.commit()
    (broken.path / ".git" / "packed-refs").write_text(
        f"{hostile_text.TITLE}{hostile_text.CLEAR}\x9b31m{hostile_text.TURNED}\n"
    )
    watched: list[dict[str, object]] = [
        daemons.watched("telemetry", source.path),
        {"name": "turned", "url": str(turned.path), "project": "turned"},
        daemons.watched("broken", broken.path, project="broken"),
    ]
    with daemons.running(folder / "daemon", repositories=watched) as daemon:
        daemon.run_of("telemetry", commit)
        daemon.apply(document("hand"))
        daemon.state_of("broken", "unreachable")
        yield Scene(daemon, source, folder, commit)


@dataclass
class Shown:
    """How a command ended, and what arrived at the terminal."""

    code: int
    text: str


@pytest.fixture
def on_a_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Shown]:
    """The program in this process, all its streams a terminal. Fails for text that acts or forges."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def run(*arguments: str, typed: str = "") -> Shown:
        with terminal() as screen, monkeypatch.context() as patched:
            with (
                open(screen.descriptor, "w", encoding="utf-8", closefd=False) as out,
                open(screen.descriptor, "w", encoding="utf-8", closefd=False) as err,
                open(screen.descriptor, encoding="utf-8", closefd=False) as typing,
            ):
                screen.type(typed)
                patched.setattr("sys.argv", ["reconciler", *arguments])
                patched.setattr("sys.stdout", out)
                patched.setattr("sys.stderr", err)
                patched.setattr("sys.stdin", typing)
                code = main_module.main()
            text = screen.close()
        judge(text)
        return Shown(code, text)

    return run


def judge(text: str) -> None:
    """Nothing arrived but what a person sees, ends of lines and our own colours; no line is forged."""
    plain = OURS.sub(r"\1", text)
    assert hostile_text.unseen(plain) == []
    assert [line for line in plain.split("\n") if line.startswith(FORGED)] == []


@pytest.fixture
def asked(scene: Scene, monkeypatch: pytest.MonkeyPatch, on_a_terminal: Callable[..., Shown]) -> Callable[..., Shown]:
    """The same, with the daemon of the scene."""
    monkeypatch.setenv("SERVICE_SERVER", f"http://127.0.0.1:{scene.daemon.port}")
    monkeypatch.setenv("SERVICE_API_KEY", scene.daemon.key)
    return on_a_terminal


ASKING = [
    ["get", "destinations"],
    ["get", "destinations", "-o", "wide"],
    ["get", "destinations", "-o", "name"],
    ["get", "destination", "good", EVERYTHING],
    ["get", EVERYTHING],
    ["get", "destinations", "-l", EVERYTHING],
    ["history", "destination", "good"],
    ["history", "destination", EVERYTHING],
    ["status"],
    ["status", "--project", "é"],
    ["runs"],
    ["runs", "--last", "telemetry"],
    ["runs", "--last", "broken"],
    ["runs", "--last", EVERYTHING],
    ["runs", EVERYTHING],
    ["reconcile", "telemetry", "--wait"],
    ["reconcile", "broken", "--wait"],
    ["reconcile", EVERYTHING],
    ["approve", "telemetry"],
    ["approve", EVERYTHING],
    ["approve", "telemetry", EVERYTHING],
    ["resume", EVERYTHING],
    ["suspend", EVERYTHING, "--reason", EVERYTHING],
    ["suspend", "turned", "--reason", EVERYTHING],
    ["suspend", "turned", "--reason", EVERYTHING.replace("\n", "")],
    ["delete", "destination", "good", EVERYTHING],
    ["delete", EVERYTHING, EVERYTHING],
    ["history", "redact", "destination", "good", "--value-file", EVERYTHING],
    ["history", "redact", "destination", EVERYTHING, "--value-file", "/dev/null"],
    ["history", "redact", EVERYTHING, EVERYTHING],
    ["whoami"],
    ["project", "list"],
    ["project", "create", EVERYTHING],
    ["project", EVERYTHING],
    ["member", "list", "--project", "é"],
    ["member", "list", "--project", EVERYTHING],
    ["member", "set", EVERYTHING, "--role", "user"],
    ["member", "set", "admin", "--role", EVERYTHING],
    ["member", "remove", EVERYTHING],
    ["user", "list"],
    ["user", "create", EVERYTHING, "--display-name", EVERYTHING, "--password-file", EVERYTHING],
    ["user", "change", EVERYTHING, "--display-name", EVERYTHING],
    ["user", "change", "admin", "--display-name", EVERYTHING],
    ["user", "change", "admin", "--display-name", "ma\u202e\u200bin"],
    ["user", "delete", EVERYTHING],
    ["user", "password"],
    ["user", "password", EVERYTHING, "--password-file", EVERYTHING],
    ["key", "list", "--project", EVERYTHING],
    ["key", "create", EVERYTHING, "--role", "viewer"],
    ["key", "create", "ma\u202e\u200bin", "--role", "viewer"],
    ["key", "create", "x", "--role", "viewer", "--expiry", EVERYTHING],
    ["key", "list"],
    ["key", "revoke", EVERYTHING],
    ["invitation", "list"],
    ["invitation", "list", "--project", EVERYTHING],
    ["invitation", "create", "--role", EVERYTHING],
    ["invitation", "create", "--role", "viewer"],
    ["invitation", "create", "--role", "viewer", "--email", EVERYTHING],
    ["invitation", "create", "--role", "viewer", "--expiry", EVERYTHING],
    ["invitation", "revoke", EVERYTHING],
    ["notification", "list", "--all"],
    ["notification", "show", EVERYTHING],
    ["notification", "read", EVERYTHING],
    ["notification", "unread", EVERYTHING],
    ["notification", "dismiss", EVERYTHING],
    ["notification", "test", EVERYTHING],
    ["audit", "list"],
    ["audit", "list", "--kind", EVERYTHING],
    ["audit", "list", "--since", EVERYTHING],
    ["audit", "list", "--until", EVERYTHING],
    ["audit", "list", "--after", EVERYTHING],
    ["audit", "verify", "--head", EVERYTHING],
    ["audit", "verify", "--retention", EVERYTHING],
    ["audit", "verify", "--config", EVERYTHING],
    ["audit", "verify", "--state-dir", f"/nonexistent/{EVERYTHING}"],
    ["queue", "status", EVERYTHING],
    ["queue", "replay", EVERYTHING],
    ["queue", "discard", EVERYTHING, "--all"],
    ["queue", "discard", EVERYTHING, "--all", "--yes"],
    ["send-test", EVERYTHING],
    ["version"],
    ["schema", "destination"],
    ["schema", EVERYTHING],
    [EVERYTHING],
    [f"--{EVERYTHING}"],
    ["plan", "--color", EVERYTHING],
    ["get", "destinations", "--server", f"http://127.0.0.1:1/{EVERYTHING}"],
    ["get", "destinations", "--server", EVERYTHING],
    ["get", "destinations", "--api-key", EVERYTHING],
    ["export", EVERYTHING],
    ["apply", "-f", EVERYTHING],
    ["validate", EVERYTHING],
    ["serve", "--config", EVERYTHING],
    ["demo", EVERYTHING],
    ["doctor", "--config", EVERYTHING],
    ["doctor", "--state-dir", f"/nonexistent/{EVERYTHING}"],
    ["doctor", "--state-dir", EVERYTHING, "--output", EVERYTHING],
    ["backup", EVERYTHING, "--config", EVERYTHING],
    ["backup", f"/nonexistent/{EVERYTHING}", "--state-dir", f"/nonexistent/{EVERYTHING}"],
    ["restore", EVERYTHING],
    ["restore", EVERYTHING, "--state-dir", EVERYTHING],
]


@pytest.mark.parametrize("arguments", ASKING, ids=lambda arguments: repr(" ".join(arguments)[:40]))
def test_no_command_acts_on_the_terminal(asked: Callable[..., Shown], arguments: list[str]) -> None:
    assert asked(*arguments).text != ""


def test_what_a_pusher_chose_is_shown_and_visible(asked: Callable[..., Shown]) -> None:
    run = asked("runs", "--last", "telemetry").text
    assert r"un\u200bseen\xad.yaml:" in run
    assert r"\x9b31m.yaml:1:1: has a name that no file should have; rename it" in run
    assert r"e\x1b]0;evil\x07" in asked("get", "destinations", "-o", "wide").text
    assert r"\x9b31m\u202e" in asked("status").text  # git's words about the broken repository


def test_documents_stay_the_same_documents(scene: Scene, asked: Callable[..., Shown]) -> None:
    wanted = scene.daemon.resources("Destination")
    assert {one["metadata"]["displayName"] for one in wanted} == {EVERYTHING}
    assert json.loads(asked("get", "destinations", "-o", "json").text) == {"resources": wanted}
    assert list(yaml.safe_load_all(asked("get", "destinations", "-o", "yaml").text)) == wanted
    last = scene.daemon.run(scene.daemon.repository("telemetry")["lastRun"])
    assert json.loads(asked("runs", "--last", "telemetry", "-o", "json").text) == last
    assert yaml.safe_load(asked("runs", "--last", "telemetry", "-o", "yaml").text) == last
    versions = scene.daemon.history("Destination", "good")
    assert json.loads(asked("history", "destination", "good", "-o", "json").text) == {"versions": versions}
    repositories = json.loads(asked("status", "-o", "json").text)["repositories"]
    assert repositories == list(yaml.safe_load_all(asked("status", "-o", "yaml").text))
    assert {one["name"] for one in repositories} == {"telemetry", "turned", "broken"}


def test_files_with_hostile_names_are_judged(scene: Scene, on_a_terminal: Callable[..., Shown]) -> None:
    folder = str(scene.source.path)
    lines = on_a_terminal("validate", folder).text.split("\n")
    assert [line for line in lines if line.startswith(rf"{folder}/un\u200bseen\xad.yaml:")] != []
    *document, summary = on_a_terminal("validate", folder, "-o", "json").text.removesuffix("\n").split("\n")
    told = json.loads("\n".join(document))
    assert summary.startswith("8 files")
    assert f"{folder}/un\u200bseen\u00ad.yaml" in {one["path"] for one in told["violations"]}
    assert on_a_terminal("validate", f"{folder}/others.yaml", "--strict").code == 3


def test_what_is_sent_from_files_with_hostile_names_is_told(scene: Scene, asked: Callable[..., Shown]) -> None:
    shutil.copytree(scene.source.path, EVERYTHING, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    assert asked("apply", "-f", EVERYTHING).code == 1  # some cannot be read
    Path(EVERYTHING, "keys.yaml").unlink()
    Path(EVERYTHING, "control.yaml").unlink()
    assert asked("apply", "--dry-run", "-f", EVERYTHING).code == 3
    assert asked("apply", "--dry-run", "--atomic", "-f", EVERYTHING).code == 3
    assert asked("delete", "--dry-run", "-f", EVERYTHING).code == 3


def test_an_export_says_where_it_wrote(asked: Callable[..., Shown]) -> None:
    assert asked("export", EVERYTHING).code == 0
    refused = asked("export", EVERYTHING)
    assert (refused.code, r"evil\x07" in refused.text) == (1, True)  # not empty
    exported = yaml.safe_load(Path(EVERYTHING, "destinations", "good.yaml").read_text())
    assert exported["metadata"]["description"] == EVERYTHING


def lie_about_people(service: Service) -> None:
    role = {"name": EVERYTHING, "role": EVERYTHING}
    service.answer("GET /v1/me", {"me": {"name": EVERYTHING, "scopes": [EVERYTHING], "projects": [role]}})
    service.answer("GET /v1/projects", {"projects": [{"name": EVERYTHING, "createdAt": EVERYTHING}]})
    service.answer("GET /v1/projects/p/members", {"members": [{"user": EVERYTHING, "role": EVERYTHING}]})
    user = {**dict.fromkeys(("name", "displayName", "createdAt"), EVERYTHING), "projects": [role]}
    service.answer("GET /v1/users", {"users": [user]})
    service.answer("GET /v1/users/u", {"user": user})
    service.answer("DELETE /v1/users/u", {"errors": [EVERYTHING]}, 409)
    key = dict.fromkeys(("id", "name", "prefix", "project", "role", "expiresAt", "lastUsedAt", "createdBy"), EVERYTHING)
    service.answer("GET /v1/api-keys", {"apiKeys": [{**key, "scopes": [EVERYTHING]}]})
    service.answer("POST /v1/api-keys", {"apiKey": {**key, "key": EVERYTHING}})
    invited = dict.fromkeys(("id", "project", "role", "email", "createdBy", "expiresAt"), EVERYTHING)
    service.answer("GET /v1/projects/p/invitations", {"invitations": [invited]})
    service.answer("POST /v1/projects/p/invitations", {"invitation": {**invited, "code": EVERYTHING}})
    service.answer("DELETE /v1/projects/p/invitations/i", {"errors": [EVERYTHING]}, 409)


def test_a_server_that_lies_acts_on_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch, on_a_terminal: Callable[..., Shown]
) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "k" * 32)
    monkeypatch.setenv("SERVICE_SERVER", service.url)
    held = {
        "commit": EVERYTHING,
        "count": 2,
        "approvable": True,
        "resources": [{"kind": EVERYTHING, "name": EVERYTHING}],
    }
    run = dict.fromkeys(("id", "repository", "outcome", "phase", "commit", "message", "finishedAt"), EVERYTHING)
    statuses = [dict.fromkeys(("status", "kind", "name", "path", "line", "reason"), EVERYTHING)]
    told: dict[str, object] = {**run, "counts": {EVERYTHING: 1}, "statuses": statuses}
    repository = dict.fromkeys(("name", "project", "state", "commit", "head", "message", "lastRun"), EVERYTHING)
    service.answer(
        "GET /v1/repositories", {"repositories": [{**repository, "held": held, "drift": 2, "lastRun": told}]}
    )
    service.answer("GET /v1/repositories/r", {"repository": {**repository, "held": held}})
    service.answer("POST /v1/repositories/r/approve", {"errors": [EVERYTHING]}, 409)
    service.answer("POST /v1/repositories/r/suspend", {"repository": {"suspension": {"until": EVERYTHING}}})
    service.answer("POST /v1/repositories/r/resume", {"run": EVERYTHING})
    service.answer("GET /v1/runs", {"runs": [told]})
    service.answer("GET /v1/runs/x", {"run": told})
    service.answer("GET /v1/version", EVERYTHING)
    service.answer("GET /v1/resources/Fleet", {"errors": [EVERYTHING]}, 500)
    update = {
        "status": EVERYTHING,
        "reason": EVERYTHING,
        "resource": {"kind": EVERYTHING, "metadata": {"name": EVERYTHING}},
    }
    service.answer("POST /v1/delete", {"updates": [update], "errors": [EVERYTHING]})
    lie_about_people(service)
    told = {
        "id": EVERYTHING,
        "displayName": EVERYTHING,
        "labels": dict.fromkeys(("service/state", "service/since", "service/occurrences"), EVERYTHING),
        "additionalInfo": {"message": EVERYTHING},
    }
    spec = dict.fromkeys(("severity", "notificationType", "account"), EVERYTHING)
    notified = {"metadata": told, "spec": spec, "status": {"userStatus": EVERYTHING}}
    service.answer("GET /v1/api/notifications", {"notifications": [notified]})
    service.answer("GET /v1/api/notifications/n", {"notification": notified})
    service.answer("POST /v1/api/notifications/n/status", {"notification": notified})
    tried = dict.fromkeys(("target", "status", "message"), EVERYTHING)
    service.answer("POST /v1/alerts/test", {"tests": [tried, {**tried, "taken": True}]})
    moments = dict.fromkeys(("oldest", "at", "cause", "answer"), EVERYTHING)
    words = dict.fromkeys(("destination", "state", "message"), EVERYTHING)
    delivery = {**words, "queue": moments, "deadLetters": {"batches": EVERYTHING}, "lastFailure": moments}
    service.answer("GET /v1/deliveries", {"deliveries": [delivery]})
    service.answer("GET /v1/destinations/d/delivery", {"delivery": delivery})
    service.answer("POST /v1/destinations/d/delivery/replay", {"errors": [EVERYTHING]}, 409)
    service.answer("POST /v1/destinations/d/delivery/discard", {"errors": [EVERYTHING]}, 409)
    service.answer("POST /v1/destinations/d/delivery/test", {"test": {**moments, **words, "status": EVERYTHING}})
    for arguments in (
        ["status"],
        ["status", "-o", "wide"],
        ["queue", "status"],
        ["queue", "status", "-o", "wide"],
        ["queue", "status", "d"],
        ["queue", "replay", "d"],
        ["queue", "discard", "d", "--all", "--yes"],
        ["send-test", "d"],
        ["runs"],
        ["runs", "-o", "wide"],
        ["runs", "x"],
        ["version"],
        ["get", "fleets"],
        ["suspend", "r", "--reason", "x"],
        ["resume", "r"],
        ["delete", "fleet", "x"],
        ["whoami"],
        ["project", "list"],
        ["member", "list", "--project", "p"],
        ["user", "list"],
        ["user", "delete", "u"],
        ["key", "list"],
        ["key", "create", "x", "--role", "user"],
        ["invitation", "list", "--project", "p"],
        ["invitation", "create", "--role", "user", "--project", "p"],
        ["invitation", "revoke", "i", "--project", "p"],
        ["notification", "list", "--all"],
        ["notification", "list", "--all", "-o", "wide"],
        ["notification", "show", "n"],
        ["notification", "read", "n"],
        ["notification", "unread", "n"],
        ["notification", "dismiss", "n"],
        ["notification", "test"],
    ):
        assert r"evil\x07" in on_a_terminal(*arguments).text
    assert "Approve this?" in on_a_terminal("approve", "r", typed="y\n").text


def test_log_lines_are_lines_of_ours(scene: Scene) -> None:
    log = scene.daemon.output()
    assert hostile_text.unseen(log) == []
    assert [json.loads(line)["time"] for line in log.removesuffix("\n").split("\n")] != []
    told = " ".join(scene.daemon.messages())
    assert r"\U000e0041\U000e0042\u200b" in told  # of a file's name
    assert "`git fsck` there says why" in told
    assert (
        r"\x9b31m\u202e" not in told
    )  # what git says of a repository on this machine may be what stands in another file


def test_a_log_on_a_terminal_is_text_that_acts_on_nothing(scene: Scene, tmp_path: Path) -> None:
    config = json.loads(scene.daemon.config.read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "stateDir": str(tmp_path / "state")}))

    def is_told(text: str) -> bool:
        return all(f"{name} " in text or f"{name}: " in text for name in ("telemetry at", "turned", "broken"))

    with terminal() as screen:
        with process(screen, "serve", "--config", str(tmp_path / "config.json")) as daemon:
            screen.until(is_told, seconds=SECONDS)
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(SECONDS) == 0
        text = screen.close()
    judge(text)
    assert all(line[2] == ":" for line in text.removesuffix("\n").split("\n"))  # each begins with its time


def process(screen: Terminal, *arguments: str) -> "subprocess.Popen[bytes]":
    """The program in a process, all its streams the terminal."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    streams = screen.descriptor
    return subprocess.Popen([PROGRAM, *arguments], stdin=streams, stdout=streams, stderr=streams, env=environment)
