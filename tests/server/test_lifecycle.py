"""Starting, stopping and reloading the daemon; what it says while it does."""

import asyncio
import contextlib
import signal
import socket
import sqlite3
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reconciler.store.sqlite import SqliteStore
from tests import daemons, needs
from tests.api.pages import worlds
from tests.auth.oidc import hostile
from tests.daemons import Daemon, destination, watched
from tests.repositories import Repository

DRAIN_SECONDS = 0.2
SLACK_SECONDS = 5.0
LINE_KEYS = ["time", "level", "logger", "message"]


def ends(daemon: Daemon) -> tuple[int, str]:
    """Launch a daemon that must not come up: its exit code and all that it writes."""
    known = len(daemon.output()) if daemon.log.exists() else 0
    daemon.launch()
    code = daemon.process.wait(daemons.START_SECONDS)
    return code, daemon.output()[known:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_when_told_and_leaves_no_process(number: signal.Signals, tmp_path: Path, source: Repository) -> None:
    repositories = [watched("one", source.path)]
    with daemons.running(tmp_path / "daemon", repositories=repositories, is_started=True) as daemon:
        daemon.run_of("one", source.head())
        children = daemon.children()
        begun = time.monotonic()
        assert daemon.stop(number) == 0
        assert time.monotonic() - begun < SLACK_SECONDS
    assert [Path(f"/proc/{child}").exists() for child in children] == [False] * len(children)
    assert daemon.messages()[-2:] == ["Stopping.", "Stopped."]
    # A log line is one object, with what happened first.
    assert [list(line)[:4] for line in daemon.lines()] == [LINE_KEYS] * len(daemon.lines())
    assert daemon.complaints() == []


def test_a_request_that_never_ends_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    settings = {"delivery": {"drainTimeout": f"{DRAIN_SECONDS * 1_000:.0f}ms"}}
    with (
        daemons.running(tmp_path / "daemon", settings=settings) as daemon,
        socket.create_connection((daemon.host, daemon.port)) as idle,
        socket.create_connection((daemon.host, daemon.port)) as slow,
    ):
        head = (
            f"POST /v1/apply HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {daemon.key}\r\nContent-Length: 100\r\n\r\n"
        )
        slow.sendall(head.encode() + b'{"resources": [')
        idle.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert idle.recv(100).startswith(b"HTTP/1.1 200")
        begun = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - begun < DRAIN_SECONDS + SLACK_SECONDS


def test_a_request_under_way_is_answered_before_the_end(tmp_path: Path) -> None:
    body = b'{"resources": []}'
    with (
        daemons.running(tmp_path / "daemon") as daemon,
        socket.create_connection((daemon.host, daemon.port)) as client,
    ):
        head = f"POST /v1/apply HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {daemon.key}\r\nContent-Length: 17\r\n"
        client.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 100")  # it waits for the body
        client.sendall(body[:5])
        daemon.process.send_signal(signal.SIGTERM)
        daemons.until(lambda: "Stopping." in daemon.messages(), "the daemon stops")
        client.sendall(body[5:])
        assert client.recv(1000).startswith(b"HTTP/1.1 202")
        assert daemon.stop() == 0


def test_a_stream_of_events_and_a_read_that_waits_end_at_once(tmp_path: Path, source: Repository) -> None:
    settings = {"delivery": {"drainTimeout": "60s"}}
    paths = ("/v1/events", "/v1/repositories/one?wait=60s")
    with contextlib.ExitStack() as opened:
        repositories = [watched("one", source.path)]
        daemon = opened.enter_context(
            daemons.running(tmp_path / "daemon", repositories=repositories, settings=settings)
        )
        daemon.run_of("one", source.head())
        clients = [opened.enter_context(socket.create_connection((daemon.host, daemon.port))) for _ in paths]
        for client, path in zip(clients, paths, strict=True):
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {daemon.key}\r\n\r\n".encode())
        assert clients[0].recv(4_096).startswith(b"HTTP/1.1 200")
        begun = time.monotonic()
        assert daemon.stop() == 0
        assert time.monotonic() - begun < SLACK_SECONDS
        assert clients[1].recv(4_096).startswith(b"HTTP/1.1 200")
        assert daemon.complaints() == []


def test_a_sign_in_that_waits_for_a_silent_provider_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    settings = {"delivery": {"drainTimeout": "60s"}}
    with worlds.standing(tmp_path, settings=settings, has_first=False) as world, ThreadPoolExecutor() as pool:
        browser = world.as_("unlucky")
        world.provider.behaviour.answers["token"] = hostile.Answer(silent=True)
        waiting = pool.submit(browser.sign_in)
        daemons.until(lambda: world.provider.counted("token") or None, "the provider is asked")
        assert world.daemon.stop() == 0
        seen = waiting.result(daemons.START_SECONDS)
    assert (seen.status, seen.page.words("h1")) == (503, ["Not at this moment"])
    told = "Somebody could not sign in: The service is stopping; sign in when it runs again."
    assert world.daemon.complaints()[-1] == told


def test_a_reload_adds_and_removes_repositories(tmp_path: Path, source: Repository) -> None:
    other = Repository.init(tmp_path / "other")
    other.write("c.yaml", destination("c"))
    with daemons.running(tmp_path / "daemon", repositories=[watched("one", source.path)]) as daemon:
        first = daemon.run_of("one", source.head())
        daemon.configure([watched("one", source.path), watched("two", other.path)])
        assert daemon.reload() == "Reloaded the settings; watching one, two."
        assert daemon.run_of("two", other.commit())["counts"] == {"created": 1}
        daemon.configure([watched("two", other.path)])
        assert daemon.reload() == "Reloaded the settings; watching two."
        assert [one["name"] for one in daemon.get("/v1/repositories").body["repositories"]] == ["two"]
        assert [one["metadata"]["name"] for one in daemon.resources("Destination")] == ["a", "b", "c"]
        assert daemon.delete("/v1/resources/Destination/a").status == 204
        assert daemon.run(first["id"])["repository"] == "one"


def test_a_reload_that_would_leave_no_repository_is_refused(tmp_path: Path, source: Repository) -> None:
    with daemons.running(tmp_path / "daemon", repositories=[watched("one", source.path)]) as daemon:
        daemon.run_of("one", source.head())
        daemon.configure([])
        assert daemon.reload() == (
            "The settings were not reloaded: `repositories` is empty, and one would be followed no more; name one, or "
            "restart the service to follow none."
        )
        daemon.applied("one", source.commit())
        assert daemon.delete("/v1/resources/Destination/a").status == 403  # Git owns it as before
        daemon.restart()
        assert daemon.get("/v1/repositories").body == {"repositories": []}
        daemon.configure([])
        assert daemon.reload() == "Reloaded the settings; watching nothing."


BAD_SETTINGS = {
    "{": "config.json",
    '{"repositories": 5}': "repositories",
    '{"repositories": [{"name": "x", "url": "ssh://git@example.com/x.git"}]}': (
        "config.json:1:33: repositories[0].url: needs credentials.sshKeyFile and credentials.knownHostsFile"
    ),
}


def test_bad_settings_change_nothing(tmp_path: Path, source: Repository) -> None:
    with daemons.running(tmp_path / "daemon", repositories=[watched("one", source.path)]) as daemon:
        daemon.run_of("one", source.head())
        for settings, told in BAD_SETTINGS.items():
            daemon.config.write_text(settings)
            message = daemon.reload()
            assert message.startswith("The settings were not reloaded: ")
            assert told in message
            assert [one["name"] for one in daemon.get("/v1/repositories").body["repositories"]] == ["one"]
            source.write("a.yaml", destination("a", f"edited under {settings}"))
            assert daemon.run_of("one", source.commit())["counts"] == {"configured": 1}


def test_every_mistake_of_a_reload_is_told_in_a_line(tmp_path: Path) -> None:
    with daemons.running(tmp_path / "daemon") as daemon:
        daemon.config.write_text('{"api": 5,\n"log": 5}')
        daemon.reload()
        daemons.until(lambda: "log: must" in daemon.messages()[-1], "both are told")
        assert daemon.messages()[-2:] == [
            f"The settings were not reloaded: {daemon.config}:{line}: {key}: must be a mapping of keys"
            for line, key in (("1:2", "api"), ("2:1", "log"))
        ]


def test_a_reload_says_what_waits_for_a_restart_until_there_is_one(tmp_path: Path) -> None:
    with daemons.running(tmp_path / "daemon") as daemon:
        changes: tuple[tuple[dict[str, object], str], ...] = (
            ({"api": {"maxResources": 5}, "log": {"format": "text"}}, "api.maxResources, log.format need"),
            ({"log": {"level": "debug"}}, "api.maxResources needs"),
        )
        for change, told in changes:
            daemon.configure([], **change)
            assert daemon.reload() == "Reloaded the settings; watching nothing."
            daemons.until(lambda: daemon.messages()[-1].endswith(" to take effect."), "the keys are named")
            assert daemon.messages()[-1] == f"{told} a restart to take effect."
        daemon.configure([], api={})
        assert daemon.reload() == "Reloaded the settings; watching nothing."
        assert daemon.stop() == 0
        assert daemon.messages()[-3:] == ["Reloaded the settings; watching nothing.", "Stopping.", "Stopped."]


def test_a_start_without_repositories_says_so_once_and_a_client_that_speaks_no_http_leaves_no_line(
    tmp_path: Path,
) -> None:
    with daemons.running(tmp_path / "daemon") as daemon:
        daemons.until(lambda: daemon.complaints() != [], "it says more than where it listens")
        known = daemon.lines()
        with socket.create_connection((daemon.host, daemon.port), timeout=10) as client:
            client.sendall(b"\x16\x03\x01 hello\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 400")
        assert daemon.get("/livez").status == 200
        assert daemon.lines() == known
    assert daemon.complaints() == [
        f"No repository is set, so nothing is watched; add one to `repositories` in {daemon.config}, "
        "or set SERVICE_REPOSITORY."
    ]


def test_another_log_level_is_used_after_a_reload(tmp_path: Path, source: Repository) -> None:
    with daemons.running(tmp_path / "daemon", repositories=[watched("one", source.path)]) as daemon:
        daemon.run_of("one", source.head())
        daemon.configure([watched("one", source.path)], log={"level": "warning"}, organization="Another")
        known = len(daemon.lines())
        daemon.process.send_signal(signal.SIGHUP)
        told = "organization needs a restart to take effect."
        daemons.until(lambda: told in daemon.messages(), "the settings are read again")
        source.write("a.yaml", destination("a", "edited"))
        daemon.run_of("one", source.commit())
        assert [line["message"] for line in daemon.lines()[known:]] == [told]


def test_a_second_daemon_on_the_same_state_refuses_to_start(tmp_path: Path) -> None:
    with daemons.running(tmp_path / "one") as daemon:
        second = Daemon(tmp_path / "two", settings={"stateDir": str(daemon.state)})
        code, output = ends(second)
        told = f"another daemon (process {daemon.process.pid}) uses the state directory {daemon.state}; "
        assert (code, output) == (1, f"error: {told}stop it, or give this one another `stateDir`\n")
        assert daemon.get("/readyz").status == 200
    with daemons.running(tmp_path / "three", settings={"stateDir": str(daemon.state)}) as again:
        assert again.get("/readyz").status == 200


def test_an_address_that_is_taken_refuses_to_start(tmp_path: Path) -> None:
    with daemons.running(tmp_path / "one") as daemon:
        second = Daemon(tmp_path / "two", settings={"listen": f"127.0.0.1:{daemon.port}"})
        code, output = ends(second)
        told = f"cannot listen on 127.0.0.1:{daemon.port} (Address already in use); choose another address"
        assert (code, output) == (1, f"error: {told} with `listen`\n")


def test_a_store_of_a_later_version_refuses_to_start(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon")
    daemon.state.mkdir()
    asyncio.run(SqliteStore(daemon.state / "store.db").close())
    with sqlite3.connect(daemon.state / "store.db") as store:
        store.execute("pragma user_version = 999")
    store.close()
    code, output = ends(daemon)
    last = output.splitlines()[-1]
    assert code == 1
    assert last.startswith("error: the store is of version 999, and this program knows versions up to ")
    assert "Traceback" not in output


def test_something_else_in_place_of_the_store_refuses_to_start(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon")
    daemon.state.mkdir()
    (daemon.state / "store.db").write_text("this is no database, but a text that somebody left here\n" * 100)
    code, output = ends(daemon)
    assert (code, len(output.splitlines())) == (1, 1)
    assert output.startswith("error: the store could not be opened (file is not a database)")


def test_all_that_it_makes_is_for_its_owner_alone_whatever_it_was_started_with(
    tmp_path: Path, source: Repository
) -> None:
    generous = ["/bin/sh", "-c", 'umask 0 && exec "$@"', "sh"]
    with daemons.running(tmp_path / "daemon", repositories=[watched("one", source.path)], prefix=generous) as daemon:
        daemon.run_of("one", source.head())
        made = [daemon.state, *daemon.state.rglob("*")]
        open_ = [path for path in made if path.stat().st_mode & 0o077]
        assert oct(daemon.state.stat().st_mode & 0o777) == "0o700"
        assert oct((daemon.state / "store.db").stat().st_mode & 0o777) == "0o600"
    assert len(made) > 10
    assert open_ == []


def test_a_clients_key_in_the_environment_refuses_to_start(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon", environment={"SERVICE_API_KEY": f"rck_{'a' * 12}_{'canary-' * 6}x"})
    code, output = ends(daemon)
    told = (
        "error: SERVICE_API_KEY: begins with rck_, as a client's key that a service made; here it would be an "
        "organization admin's: unset it in the shell or the unit that starts the service, or set one of your own\n"
    )
    assert (code, output) == (1, told)


def test_certificate_files_that_cannot_be_used_refuse_to_start(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    daemon = Daemon(tmp_path / "daemon", settings={"tls": {"certFile": str(certificate), "keyFile": str(key)}})
    told = f"error: the certificate {certificate} with the key {key} cannot be used"
    code, output = ends(daemon)
    rest = "mend `tls.certFile` or `tls.keyFile`"
    assert (code, output) == (1, f"{told} ({certificate}: No such file or directory); {rest}\n")
    command = [needs.require("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    files = ["-passout", "pass:secret", "-days", "1", "-subj", "/CN=x", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *files], check=True, capture_output=True, timeout=30)
    code, output = ends(daemon)
    assert (code, len(output.splitlines()), output.startswith(told)) == (1, 1, True)
