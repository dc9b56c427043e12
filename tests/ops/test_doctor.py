"""`reconciler doctor`: each thing that can be wrong is found, with the real thing broken, and nothing else is said."""

import asyncio
import itertools
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast, get_args

import msgspec
import pytest
from pydantic import BaseModel

from reconciler.cli import doctor, exits
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.models import Cause, Domain, Notification, notification_row
from reconciler.ops import doctor as ops_doctor
from reconciler.ops.checks import files, services
from reconciler.ops.doctor import DoctorCheck, DoctorFinding, FindingStatus, error, ok, threaded, warning
from reconciler.settings.loading import Loaded
from reconciler.settings.models import Settings
from reconciler.store.files import STORE
from reconciler.store.operations import SqliteOperations
from reconciler.store.records import Noted, NotificationRow
from reconciler.worker.sandbox import Protections
from tests import daemons, needs
from tests.cli.conftest import PROGRAM, Program
from tests.daemons import destination, watched
from tests.ops import scenes
from tests.repositories import Repository
from tests.scenarios.remote_cases.remote import Upstream
from tests.servers import https
from tests.servers.certificates import Authority
from tests.store import rows
from tests.store.engines import flip

Found = list[tuple[str, str, str]]
NOW = datetime(2026, 11, 28, 1, 2, 3, tzinfo=UTC)


class Service:
    """The settings and the state directory of a service that does not run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.config = folder / "config.json"
        self.program = Program(folder)
        self.settings: dict[str, object] = {"stateDir": str(self.state), "listen": "127.0.0.1:0"}
        scenes.filled(self.state, "a")

    def set(self, **settings: object) -> None:
        self.settings |= settings

    def examine(self, *options: str, **environment: str) -> tuple[int, Found]:
        """The exit code, and what was found."""
        self.config.write_text(json.dumps(self.settings))
        told = self.program("doctor", "--config", str(self.config), "-o", "json", *options, **environment)
        assert told.err == ""
        found = json.loads(told.out)["findings"]
        return told.code, [(one["check"], one["status"], one["message"]) for one in found]

    def wrong(self, *options: str, **environment: str) -> Found:
        """Return what is not ok."""
        code, found = self.examine(*options, **environment)
        wrong = [one for one in found if one[1] != "ok"]
        worst = {status for _, status, _ in wrong}
        expected = exits.ERROR if "error" in worst else exits.WARNINGS if worst else exits.OK
        assert code == expected
        return wrong


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> Repository:
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", destination("a"))
    source.commit()
    return source


def test_of_a_service_that_is_well_nothing_is_wrong(service: Service, source: Repository) -> None:
    service.set(repositories=[watched("telemetry", source.path)])
    code, found = service.examine()
    assert (code, [one for one in found if one[1] != "ok"]) == (exits.OK, [])
    assert [check for check, _, _ in found] == [
        "settings",
        "service",
        "state directory",
        "files",
        "git",
        "sandbox",
        "repositories",
        "store.db",
        "ops.db",
        "disk",
    ]
    told = {check: message for check, _, message in found}
    assert told["repositories"] == f"telemetry: refs/heads/main is at {source.head()[:12]}"
    assert told["service"] == "it does not run"
    assert scenes.listing(service.state) == ["ops.db", "store.db"]


def test_beside_a_service_that_runs_nothing_is_wrong(tmp_path: Path, source: Repository) -> None:
    with daemons.running(tmp_path / "daemon", repositories=[watched("telemetry", source.path)]) as daemon:
        daemon.run_of("telemetry", source.head())
        told = Program(tmp_path)("doctor", "--config", str(daemon.config), "--full")
        process = daemon.process.pid
        assert daemon.complaints() == []
    lines = told.out.splitlines()
    assert [line for line in lines if not line.startswith("ok ")] == []
    assert lines[1] == f"ok       service: it runs (process {process})"
    assert any(line.startswith("ok       sandbox: the worker of the service is confined by ") for line in lines)
    assert told.code == exits.OK


def test_mistakes_in_the_settings_leave_what_needs_none(service: Service) -> None:
    service.set(logs={"level": "info"}, listen="nowhere")
    text = json.dumps(service.settings)
    assert service.wrong() == [
        (
            "settings",
            "error",
            f"{service.config}:1:{text.index('listen')}: listen: must be host:port such as 127.0.0.1:3001 or "
            "[::1]:3001",
        ),
        (
            "settings",
            "error",
            f"{service.config}:1:{text.index('logs')}: logs: is not a known key; did you mean `log`?",
        ),
        (
            "settings",
            "warning",
            "nothing else was checked, because all other checks need the settings; correct them, and run the doctor "
            "again",
        ),
    ]


def test_a_variable_that_is_none_of_ours_is_a_warning(service: Service) -> None:
    [found] = service.wrong(SERVICE_LISTENS="127.0.0.1:1")
    assert found[:2] == ("settings", "warning")
    assert "SERVICE_LISTENS" in found[2]


def test_a_state_directory_that_others_may_enter(service: Service) -> None:
    service.state.chmod(0o755)
    (service.state / "store.db").chmod(0o644)
    assert service.wrong() == [
        (
            "state directory",
            "warning",
            f"{service.state} is open to others than its owner (mode 0755); `chmod 700 {service.state}`",
        ),
        (
            "state directory",
            "error",
            f"{service.state}/store.db may be read by others than its owner (mode 0644); `chmod 600 "
            f"{service.state}/store.db`",
        ),
    ]


def test_files_of_another_user_in_the_state_directory(service: Service) -> None:
    needs.require_root()
    os.chown(service.state, 12345, 12345)
    os.chown(service.state / "ops.db", 12345, 12345)
    found = [one for one in service.wrong() if not one[2].startswith(f"{service.state}/store.db-")]
    assert found == [
        (
            "state directory",
            "warning",
            "this is root, and the service is 12345: which files 12345 may not read does not show; look as 12345: "
            f"`runuser -u 12345 -- reconciler doctor --state-dir {service.state}`",
        ),
        (
            "state directory",
            "error",
            f"{service.state}/store.db belongs to root, so that the service of 12345 cannot use it; `chown -R "
            f"--reference={service.state} {service.state}/store.db`",
        ),
    ]


def test_a_state_directory_that_is_not_there_or_no_folder(service: Service) -> None:
    service.set(stateDir=str(service.folder / "none"))
    code, found = service.examine()
    none = service.folder / "none"
    assert code == exits.WARNINGS
    assert ("state directory", "ok", f"{none} is not there yet; the first start makes it") in found
    assert (
        "store.db",
        "warning",
        f"there is no store at {none}/store.db, so no service has run there; where one has, elsewhere, name the "
        "service's settings with --config, or its `stateDir` with --state-dir; else the first start makes it",
    ) in found
    assert not none.exists()
    none.write_text("")
    assert (
        "state directory",
        "error",
        f"{none} is no folder; move it away, or name another with `stateDir`",
    ) in service.wrong()


def test_files_of_the_settings_that_cannot_be_read_or_are_open(service: Service, source: Repository) -> None:
    gone, open_to_all = service.folder / "gone", service.folder / "hook"
    open_to_all.write_text("canary-secret-of-a-hook")
    open_to_all.chmod(0o666)
    service.set(
        repositories=[
            {
                **watched("telemetry", source.path),
                "verify": {"signersFile": str(gone)},
                "hook": {"secretFile": str(open_to_all)},
            }
        ]
    )
    hook = f"{open_to_all}, the secret of `repositories[0].hook.secretFile`, may be read by everybody (mode 0666)"
    written = f"{open_to_all}, the file of `repositories[0].hook.secretFile`, may be written by others than its owner"
    assert service.wrong() == [
        (
            "files",
            "error",
            f"{gone}, the file of `repositories[0].verify.signersFile`, does not exist; mend that, or correct "
            "`repositories[0].verify.signersFile`",
        ),
        (
            "files",
            "error",
            f"{hook}; `chmod o-rwx {open_to_all}`, and replace the secret if anybody else uses this machine",
        ),
        ("files", "warning", f"{written} (mode 0666); `chmod go-w {open_to_all}`"),
    ]


def test_a_settings_file_with_a_secret_that_everybody_reads(service: Service) -> None:
    service.set(auth={"oidc": {"issuer": "https://id.example", "oauth2ClientSecret": "canary-client-secret"}})
    service.config.write_text("")
    service.config.chmod(0o644)
    found = [one for one in service.wrong() if one[0] == "files"]
    assert found == [
        (
            "files",
            "error",
            f"{service.config}, the secret of `auth.oidc.oauth2ClientSecret`, may be read by everybody (mode 0644); "
            f"`chmod o-rwx {service.config}`, and replace the secret if anybody else uses this machine",
        )
    ]
    service.config.chmod(0o600)
    assert [one for one in service.wrong() if one[0] == "files"] == []


def test_a_machine_without_git(service: Service, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert service.wrong(PATH=str(tmp_path / "empty")) == [
        ("git", "error", "there is no program git; install it, or put its folder into PATH")
    ]


def test_a_git_that_is_too_old(service: Service, tmp_path: Path) -> None:
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho git version 2.20.1\n")
    old.chmod(0o755)
    told = "git says that it is `git version 2.20.1`, and 2.39 is the oldest that is tested; install a later one"
    assert service.wrong(PATH=f"{old.parent}:{os.environ['PATH']}") == [("git", "warning", told)]


def test_the_worker_of_a_service_says_how_it_is_confined(tmp_path: Path) -> None:
    said = tmp_path / "worker"
    said.write_bytes(msgspec.json.encode(Protections(landlock=6, seccomp=True)))
    assert services.check_sandbox(tmp_path, is_running=True) == [
        ok("sandbox", "the worker of the service is confined by landlock (version 6 of its rules) and seccomp")
    ]
    less = ("this kernel has no landlock", "this kernel has no seccomp")
    said.write_bytes(msgspec.json.encode(Protections(missing=less)))
    assert services.check_sandbox(tmp_path, is_running=True) == [
        warning(
            "sandbox",
            "the worker of the service is confined less than it could be: this kernel has no landlock, and this kernel "
            "has no seccomp",
            "all works as it is; use a kernel that has landlock and seccomp, and let a container allow both",
        )
    ]
    said.unlink()
    assert services.check_sandbox(tmp_path, is_running=True) == [unconfined("the worker of the service")]


def test_without_a_service_a_worker_is_asked(tmp_path: Path) -> None:
    (tmp_path / "worker").write_bytes(msgspec.json.encode(Protections(missing=("that was long ago",))))
    [found] = services.check_sandbox(tmp_path, is_running=False)
    assert "that was long ago" not in found.message
    assert found.message.startswith("a worker that is started from here is confined")
    command = (sys.executable, "-c", "raise SystemExit(1)")
    assert services.check_sandbox(tmp_path, is_running=False, command=command) == [
        unconfined("a worker that is started from here")
    ]


def unconfined(which: str) -> DoctorFinding:
    return error(
        "sandbox", f"{which} could not be started, or could not be confined", "look into the log of the service"
    )


def test_repositories_that_cannot_be_followed(service: Service, source: Repository) -> None:
    service.set(
        repositories=[
            watched("good", source.path),
            {**watched("lost", source.path), "branch": "none"},
            watched("gone", service.folder / "gone"),
            {**watched("resting", service.folder / "gone"), "suspend": True},
            {"name": "closed", "url": "http://127.0.0.1:1/x.git"},
            watched("inside", service.state / "mirrors"),
        ]
    )
    _, found = service.examine()
    told = [(status, message) for check, status, message in found if check == "repositories"]
    assert [status for status, _ in told] == ["ok", "error", "error", "ok", "error", "error"]
    assert told[1][1] == f"lost: {source.path} has no branch none; name another with `branch`"
    assert told[2][1] == f"gone: {service.folder}/gone does not exist; put it there, or correct `url`"
    assert told[3][1] == "resting is suspended in the settings, and nobody looked"
    assert told[4][1].startswith("closed: http://127.0.0.1:1/x.git cannot be read (")


def test_a_repository_with_a_password_where_no_program_may_run_from_tmp(service: Service) -> None:
    """As in a container: git asks for the password by a program, which must lie where one may be run."""
    small = service.folder / "tmp"
    small.mkdir()
    mounted = 'mount -t tmpfs -o noexec none "$TMPDIR" && exec "$0" "$@"'
    prefix = [*needs.require_mount_namespace(), "sh", "-c", mounted]
    authority = Authority.make(service.folder / "authority")
    password = service.folder / "password"
    password.write_text("canary-password")
    password.chmod(0o600)
    credentials = {"username": "ada", "passwordFile": str(password), "caFile": str(authority.bundle)}
    upstream = Upstream(service.folder / "upstream")
    with https.serving(upstream.served, certificate=authority.issue()) as server:
        server.basic = ("ada", "canary-password")
        service.set(repositories=[{"name": "far", "url": server.url(), "credentials": credentials}])
        service.config.write_text(json.dumps(service.settings))
        command = [*prefix, str(PROGRAM), "doctor", "--config", str(service.config)]
        environment = service.program.variables({"TMPDIR": str(small)})
        told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    [line] = [line for line in told.stdout.splitlines() if " repositories: " in line]
    assert line == f"ok       repositories: far: refs/heads/main is at {upstream.source.head()[:12]}"
    assert scenes.listing(service.state) == ["ops.db", "store.db"]


def test_a_store_that_is_damaged(service: Service) -> None:
    store = scenes.filled(service.folder / "large", *(f"n{number}" for number in range(300))).store
    store.replace(service.state / "store.db")
    scenes.damage(service.state / "store.db")
    (check, status, message), *_ = service.wrong()  # what was written over may be of the audit as well
    assert (check, status) == ("store.db", "error")
    assert "malformed" in message or message.endswith("; stop the service, and restore a backup")


@pytest.mark.parametrize("given", [[], ["--full"]])
def test_the_damage_of_a_store_is_told_without_the_heading_of_sqlite(service: Service, given: list[str]) -> None:
    file = service.state / "store.db"
    with file.open("r+b") as opened:
        opened.seek(36)  # the number of free pages, in the header of a database
        opened.write((99).to_bytes(4, "big"))
    [(check, status, message)] = service.wrong(*given)
    told = r" is damaged \(Main freelist: size is [0-9]+ but should be 99\); stop the service, and restore a backup"
    assert (check, status) == ("store.db", "error")
    assert re.fullmatch(re.escape(str(file)) + told, message)


def test_damage_that_only_a_full_look_finds(service: Service) -> None:
    with closing(sqlite3.connect(service.state / "store.db", isolation_level=None)) as connection:
        connection.execute("pragma writable_schema = on")
        connection.execute("create table t (a text)")
        connection.execute("insert into t values ('x')")
        connection.execute("create index t_a on t (a)")
        page = connection.execute("select rootpage from sqlite_schema where name = 't_a'").fetchone()[0]
    with (service.state / "store.db").open("r+b") as file:
        file.seek((page - 1) * 4096)
        data = file.read(4096)
        file.seek((page - 1) * 4096)
        file.write(data.replace(b"x", b"y"))
    assert service.wrong() == []
    [(check, status, message)] = service.wrong("--full")
    assert (check, status) == ("store.db", "error")
    assert message.endswith("; stop the service, and restore a backup")


def test_a_stored_version_that_is_not_what_was_stored_is_found_by_a_full_look(service: Service) -> None:
    marked = replace(rows.stored("z"), versions=[rows.version("z", padding="marker-of-one-body")])
    asyncio.run(scenes.add(service.state / "store.db", marked))
    flip(service.state / "store.db", b"marker-of-one-body")
    assert service.wrong() == []
    told = (
        f"{service.state}/store.db: 1 stored version damaged: version 1 of the Destination z (project default); apply "
        "these anew, have Git read in full, or restore a backup; look at the disk"
    )
    assert service.wrong("--full") == [("store.db", "error", told)]


def test_a_store_of_a_later_version_or_of_another_program(service: Service) -> None:
    with closing(sqlite3.connect(service.state / "store.db")) as connection:
        connection.execute(f"pragma user_version = {STORE.latest + 1}")
    told = (
        f"The store in {service.state}/store.db is of version {STORE.latest + 1}, and this program knows versions up "
        f"to {STORE.latest}: a later version of the program wrote it; install that one"
    )
    assert service.wrong() == [("store.db", "error", told)]
    with closing(sqlite3.connect(service.state / "ops.db")) as connection:
        connection.execute("pragma application_id = 1")
    told = (
        f"{service.state}/ops.db is not the database of sessions and notifications of this program; name another file"
    )
    assert service.wrong()[1:] == [("ops.db", "error", told)]


def test_an_older_store_will_be_brought_to_this_version(service: Service) -> None:
    (service.state / "store.db").unlink()
    scenes.older(service.state / "store.db", 2)
    _, found = service.examine()
    [told] = [message for check, _, message in found if check == "store.db"]
    assert told.endswith(f"whole; the next start brings it to version {STORE.latest}")


@pytest.mark.parametrize("is_full", [False, True])
def test_a_store_that_there_is_no_time_for(service: Service, is_full: bool) -> None:
    moments = itertools.chain([0.0], itertools.repeat(files.FULL_SECONDS + 1))
    store = scenes.filled(service.folder / "large", *(f"n{number}" for number in range(3_000))).store
    [told] = files.check_database(store, STORE, is_full=is_full, clock=lambda: next(moments))
    seconds = files.FULL_SECONDS if is_full else files.QUICK_SECONDS
    assert (told.check, told.status) == ("store.db", FindingStatus.WARNING)
    assert f", too large to be looked through in {seconds:g} seconds" in told.message
    assert told.todo == (files.ELSEWHERE if is_full else "look through it with `reconciler doctor --full`")


@pytest.mark.parametrize("is_full", [False, True])
def test_a_look_without_time_says_so_before_nobody_waits_for_it_any_more(is_full: bool) -> None:
    loaded = Loaded(settings=Settings(), warnings=(), config=None)
    found = doctor.doctor_checks(loaded, environment={}, is_full=is_full)
    seconds = {check.name: check.seconds for check in found}
    for name in ("store.db", "ops.db"):
        assert seconds[name] > (files.FULL_SECONDS if is_full else files.QUICK_SECONDS), name


def test_a_disk_with_little_room(service: Service) -> None:
    service.set(delivery={"freeBytes": 1 << 50})
    [(check, status, message)] = service.wrong()
    assert (check, status) == ("disk", "error")
    assert message.endswith("less than `delivery.freeBytes` (1024.0 TiB): log records are refused; make room")


def test_a_provider_that_is_down(service: Service) -> None:
    pytest.importorskip("reconciler.auth.oidc.fetching")
    oidc = {"issuer": "http://127.0.0.1:1", "oauth2ClientID": "reconciler", "oauth2ClientSecret": "canary-client"}
    service.config.touch(mode=0o600)
    service.set(auth={"type": "oidc", "oidc": oidc})
    [(check, status, message)] = service.wrong()
    assert (check, status) == ("provider", "error")
    assert "127.0.0.1:1" in message


def test_a_provider_whose_secret_is_in_the_environment_of_the_service_alone(service: Service) -> None:
    pytest.importorskip("reconciler.auth.oidc.fetching")
    service.set(auth={"type": "oidc", "oidc": {"issuer": "http://127.0.0.1:1", "oauth2ClientID": "reconciler"}})
    (place, status, told), (check, _, message) = service.wrong()
    assert (place, status) == ("settings", "warning")
    assert "SERVICE_OIDC_OAUTH2_CLIENT_SECRET" in told
    assert told.endswith(
        "that is no error if the service has it in its own environment; the other checks do not need it"
    )
    assert (check, "127.0.0.1:1" in message) == ("provider", True)
    service.set(auth={"type": "oidc", "oidc": {"issuer": "http://127.0.0.1:1"}})
    assert [one[:2] for one in service.wrong()] == [
        ("settings", "error"),
        ("settings", "error"),
        ("settings", "warning"),
    ]


def test_a_damaged_file_of_sessions_and_damaged_queue_files(service: Service) -> None:
    file = service.state / "ops.db"
    file.write_bytes(b"a text, and no database" * 100)
    folder = service.state / "queues" / "default" / "01M7ZDJ4517MMPZDG6WAJTS57T" / "quarantine"
    folder.mkdir(parents=True)
    for name in ("dead-0000000000000001.seg", "0000000000000001.seg", "0000000000000001.ack"):
        (folder / name).touch()
    assert service.wrong() == [
        (
            "ops.db",
            "error",
            f"{file} is damaged (file is not a database); restart the service: it sets the file aside and begins a "
            "new one, and everybody signs in again",
        ),
        (
            "queues",
            "warning",
            f"2 damaged queue files in {folder}; look at the disk; `reconciler queue status` says whether batches are "
            "lost; remove the files when nobody needs them, and restart the service",
        ),
    ]


def test_batches_that_a_queue_lost_until_that_is_resolved(service: Service) -> None:
    def noted(number: int, *, lost: int, resolved: datetime | None = None) -> NotificationRow:
        cause = Cause(NotificationType.QUEUE_DAMAGED, f"siem-{number}", "default")
        title = f"The queue of the destination siem-{number} is damaged"
        severity = Severity.ERROR if lost else Severity.WARNING
        return notification_row(
            Notification(
                id=f"01M7ZDJ4517MMPZDG6WAJTS57{number}",
                domain=Domain.DELIVERY,
                cause=cause,
                severity=severity,
                title=title,
                details=f"Damaged files: 1. Lost batches: {lost}.",
                opened=NOW,
                began=NOW,
                modified=NOW,
                resolved=resolved,
            )
        )

    async def note() -> None:
        operations = SqliteOperations(service.state / "ops.db")
        await operations.note(Noted([noted(1, lost=2), noted(2, lost=0), noted(3, lost=1, resolved=NOW)]), after=0)
        await operations.close()

    asyncio.run(note())
    told = (
        "project default: The queue of the destination siem-1 is damaged (Damaged files: 1. Lost batches: 2); look at "
        "the disk, and have senders send them again"
    )
    assert service.wrong() == [("queues", "error", told)]


def test_files_of_alerts_are_secrets(service: Service) -> None:
    url, secret = service.folder / "url", service.folder / "secret"
    url.write_text("https://chat.example/canary-url-of-a-chat")
    url.chmod(0o644)
    service.set(alerts=[{"name": "chat", "urlFile": str(url), "secretFile": str(secret)}])
    assert service.wrong() == [
        (
            "files",
            "error",
            f"{url}, the secret of `alerts[0].urlFile`, may be read by everybody (mode 0644); `chmod o-rwx {url}`, and "
            "replace the secret if anybody else uses this machine",
        ),
        (
            "files",
            "error",
            f"{secret}, the file of `alerts[0].secretFile`, does not exist; mend that, or correct "
            "`alerts[0].secretFile`",
        ),
    ]


def test_a_folder_of_secrets_that_everybody_may_enter_or_that_is_none(service: Service) -> None:
    folder = service.folder / "secrets"
    service.set(secrets={"directory": str(folder)})
    told = f"{folder}, the folder of `secrets.directory`, is no folder; make it, or correct `secrets.directory`"
    assert service.wrong() == [("files", "error", told)]
    folder.mkdir(mode=0o755)
    told = f"{folder}, the folder of `secrets.directory`, may be entered by everybody (mode 0755)"
    todo = f"`chmod o-rwx {folder}`, and replace the secrets that others may have read"
    assert service.wrong() == [("files", "warning", f"{told}; {todo}")]
    folder.chmod(0o750)
    assert service.wrong() == []


def everything(topic: type[BaseModel]) -> BaseModel:
    """Settings with each file that they can name, and one of each thing in a list."""
    values: dict[str, Any] = {}
    for name, about in topic.model_fields.items():
        kind, *inner = [about.annotation, *get_args(about.annotation)]
        if name.endswith("_file"):
            values[name] = Path("/", name)
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            values[name] = everything(kind)
        elif inner and isinstance(inner[0], type) and issubclass(inner[0], BaseModel):
            values[name] = (everything(inner[0]),)
    return topic.model_construct(**values)


def test_every_file_that_the_settings_can_name_is_looked_at() -> None:
    settings = everything(Settings)
    named = [each.setting for each in files.named_files(cast("Settings", settings))]
    assert sorted(named) == sorted(found for found, _ in files_of(settings))


def files_of(value: BaseModel, at: str = "") -> Iterator[tuple[str, Path]]:
    """Every file in settings, with the key that names it."""
    for name, about in type(value).model_fields.items():
        given, where = getattr(value, name, None), f"{at}{about.alias}"
        if isinstance(given, BaseModel):
            yield from files_of(given, f"{where}.")
        elif isinstance(given, Path) and name.endswith("_file"):
            yield where, given
        elif isinstance(given, tuple) and given and isinstance(given[0], BaseModel):
            yield from files_of(given[0], f"{where}[0].")


# How checks are made


def test_a_check_that_fails_or_hangs_takes_no_other_with_it() -> None:
    def fails() -> list[DoctorFinding]:
        raise KeyError("canary-in-an-exception")

    def denied() -> list[DoctorFinding]:
        raise PermissionError(13, "Permission denied", "/x")

    async def hangs() -> list[DoctorFinding]:
        await asyncio.Event().wait()
        return []

    def good() -> list[DoctorFinding]:
        return [ops_doctor.ok("good", "fine")]

    asked: list[tuple[str, ops_doctor.Check]] = [
        ("fails", threaded(fails)),
        ("denied", threaded(denied)),
        ("hangs", hangs),
        ("good", threaded(good)),
    ]
    found = asyncio.run(ops_doctor.run_checks([DoctorCheck(name, look, 0.2) for name, look in asked]))
    assert found == [
        DoctorFinding(
            "fails",
            FindingStatus.ERROR,
            "this could not be looked at (KeyError)",
            "that is a fault of the program; report it",
        ),
        DoctorFinding("denied", FindingStatus.ERROR, "/x: Permission denied", "mend that, and look again"),
        DoctorFinding(
            "hangs",
            FindingStatus.ERROR,
            "this could not be looked at within 0.2 seconds",
            "look whether a disk or the network hangs",
        ),
        DoctorFinding("good", FindingStatus.OK, "fine"),
    ]


def test_a_disk_that_hangs_does_not_keep_the_command_from_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    look: Callable[[], list[DoctorFinding]] = lambda: [ops_doctor.ok("x", (tmp_path / "pipe").read_text())]  # noqa: E731
    [found] = asyncio.run(ops_doctor.run_checks([DoctorCheck("pipe", threaded(look), 0.2)]))
    assert found.status is FindingStatus.ERROR
    os.close(os.open(tmp_path / "pipe", os.O_RDWR))


@pytest.mark.parametrize(
    ("statuses", "worst"),
    [
        ([], FindingStatus.OK),
        ([FindingStatus.OK], FindingStatus.OK),
        ([FindingStatus.WARNING, FindingStatus.OK], FindingStatus.WARNING),
        (list(FindingStatus), FindingStatus.ERROR),
    ],
)
def test_the_worst_counts(statuses: list[FindingStatus], worst: FindingStatus) -> None:
    assert ops_doctor.worst(DoctorFinding("x", status, "y") for status in statuses) is worst
