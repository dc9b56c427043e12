"""One daemon, fed with every secret there is, and all that comes out of it, byte by byte.

Belongs here: doing everything once and noting what came of it. Does not: saying what must not be there.
"""

import base64
import contextlib
import http.client
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from reconciler.settings import loading
from tests import daemons
from tests.daemons import COMMAND, Daemon, watched
from tests.repositories import Repository
from tests.scenarios.canary import places
from tests.scenarios.canary.places import canary

API_KEY = canary("api-key-0123456789-0123456789-0123456789")
QUERIES = ("", "?dryRun=true", "?acceptInvalid=true", "?atomic=true", "?dryRun=true&acceptInvalid=true")
SECONDS = 60.0
INITIAL = "initial-admin-password"  # is removed by whoever reads it, and holds the password alone
MEANT = ("store.db", INITIAL)
UNDESCRIBED = (b"in-a-spec", b"in-the-metadata", b"beside-the-spec", b"beside-a-value")
ROOT = Path(__file__).parents[3]


@dataclass
class Evidence:
    """The output, by its source."""

    answers: dict[str, bytes] = field(default_factory=dict)
    echoes: dict[str, bytes] = field(default_factory=dict)  # of what was sent with fields that no schema describes
    printed: dict[str, bytes] = field(default_factory=dict)  # by commands
    processes: dict[str, bytes] = field(default_factory=dict)  # command lines and environments
    made: dict[str, bytes] = field(default_factory=dict)  # secrets that the service makes, and says once
    log: bytes = b""
    files: dict[str, bytes] = field(default_factory=dict)  # of the state, less the column of secrets and the mirrors
    objects: dict[str, bytes] = field(default_factory=dict)  # of the mirrors, unpacked
    statuses: dict[str, int] = field(default_factory=dict)  # of the answers


class Gathering:
    """The daemon, the repositories, and what they have given so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found = Evidence()
        self.wanted: list[tuple[tuple[str, ...], str]] = []
        self.clean = Repository.init(folder / "clean")  # secrets as references alone
        self.leaky = Repository.init(folder / "leaky")  # committed in clear
        self.daemon = Daemon(
            folder / "daemon",
            is_started=True,  # what /proc shows of it counts
            settings={"log": {"level": "debug"}},
            environment={
                "DESTINATION_DEFAULT__TOKEN": canary("environment"),
                "DESTINATION_LEAKY__TOKEN": canary("environment-of-another"),
                "SERVICE_DEBUG": "1",
            },
        )
        self.daemon.key = API_KEY
        self._fill()

    def _fill(self) -> None:
        for project in ("default", "leaky"):
            secrets = self.daemon.state / "secrets" / project
            secrets.mkdir(mode=0o700, parents=True)
            (secrets / "token").write_text(canary(f"file-of-{project}"))
        references = {"Authorization": "Bearer ${env:DESTINATION_DEFAULT__TOKEN}", "X": "${file:token}"}
        hook = {"type": "webhook", "parameters": [{"name": "hostname", "value": "a.example"}]}
        hook["parameters"] = [*hook["parameters"], {"name": "headers", "value": references}]
        self.clean.write("hook.yaml", places.as_file(places.document("Destination", "referring", hook)))
        documents = [*places.good(), *places.incomplete(), *places.bad(), *places.undescribed()]
        for number, document in enumerate(documents):
            self.leaky.write(f"documents/{number:02}.json", places.as_file(document))
        for path, text in places.broken_files():
            self.leaky.write(path, text)

    # Doors

    def ask(
        self, method: str, path: str, body: bytes | None = None, *, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """A request; the answer is kept, its headers with it."""
        sent = {"Authorization": f"Bearer {API_KEY}"} if headers is None else headers
        connection = http.client.HTTPConnection(self.daemon.host, self.daemon.port, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            content = answer.read()
        what = f"{method} {path} #{len(self.found.statuses)}"
        self.found.statuses[what] = answer.status
        kept = self.found.echoes if any(part in (body or b"") for part in UNDESCRIBED) else self.found.answers
        kept[what] = str(answer.headers).encode() + content
        return answer.status, content

    def command(self, *arguments: str, stdin: str = "") -> None:
        """A command, to be done with all others."""
        self.wanted.append((arguments, stdin))

    def _run_commands(self) -> None:
        server = f"http://{self.daemon.host}:{self.daemon.port}"
        variables = {
            "SERVICE_SERVER": server,
            "SERVICE_API_KEY": API_KEY,
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.scenarios.canary.commands"],
            input=json.dumps(self.wanted).encode(),
            env=variables | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"},
            cwd=self.folder,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        for number, ((arguments, _), printed) in enumerate(zip(self.wanted, json.loads(done.stdout), strict=True)):
            self.found.printed[f"reconciler {' '.join(arguments)} #{number}"] = printed.encode()

    # What is done

    def everything(self) -> Evidence:
        """All of it, in an order in which each step finds something."""
        self.daemon.start()
        self._settings()
        self._good()
        self._refused()
        self._keys()
        self._made()
        self._people()
        with self._watching_processes():
            self._git()
        self._reads()
        self._commands()
        self._processes()
        self._deletes()
        self.daemon.stop()
        self.found.log = self.daemon.log.read_bytes()
        self._files()
        return self.found

    def _apply(self, documents: Iterable[object], queries: Iterable[str] = ("",)) -> None:
        body = json.dumps({"resources": list(documents)}).encode()
        for query in queries:
            self.ask("POST", f"/v1/apply{query}", body)

    def _good(self) -> None:
        self._apply(places.good(), ("?dryRun=true", "", "?dryRun=true", "?atomic=true"))
        self._apply(places.incomplete(), ("", "?dryRun=true&acceptInvalid=true", "?acceptInvalid=true"))
        status, listed = self.ask("GET", "/v1/resources/Destination")
        assert (status, len(json.loads(listed)["resources"])) == (200, 4), listed
        again = json.loads(listed)["resources"]
        self._apply(again, ("?dryRun=true", "?acceptInvalid=true", "?atomic=true"))  # `(sensitive)` for each
        for one in places.good():  # every secret changes, so that there is a history
            if one["kind"] in places.COMPONENTS:
                self._apply([json.loads(json.dumps(one).replace(canary(""), canary("changed-")))])

    def _refused(self) -> None:
        for one in (*places.bad(), *places.undescribed()):
            self._apply([one], QUERIES)
            self._apply([one, one])
        everything = [*places.good(), *places.incomplete(), *places.bad()]
        self._apply(everything, ("?dryRun=true", "?atomic=true"))
        for body in places.bodies():
            for path in ("/v1/apply", "/v1/apply?atomic=true", "/v1/delete"):
                self.ask("POST", path, body)

    def _made(self) -> None:
        """Return what the service makes: a first password, and keys, each shown in one answer, used and one revoked."""
        self.found.made["first password"] = (self.daemon.state / INITIAL).read_bytes().strip()
        for role in ("viewer", "user", "admin"):
            body = {"name": f"{role} of a test", "project": "default", "role": role}
            answer = self.daemon.post("/v1/api-keys", body)
            assert answer.status == 201, answer
            made = str(answer.body["apiKey"]["key"])
            self.found.made[role] = made.encode()
            used = {"Authorization": f"Bearer {made}"}
            for path in ("/v1/api-keys", "/v1/resources/Destination", f"/v1/runs?key={made}"):
                self.ask("GET", path, headers=used)
            self.ask("POST", "/v1/api-keys", json.dumps(body).encode(), headers={"X-Service-Api-Key": made[:-1]})
        self.ask("DELETE", f"/v1/api-keys/{answer.body['apiKey']['id']}")
        self.ask("GET", "/v1/api-keys", headers=used)

    def _people(self) -> None:
        """A person with a password, good and bad ones, and attempts to sign in with it."""
        password = canary("password-of-ada-0123456789-0123456789")
        for body in (
            {"name": "ada", "password": password},
            {"name": "ada", "password": password},
            {"name": "eve", "password": [password]},
            {"name": "eve", "password": canary("x")},
            {"name": "eve", "password": password, "more": password},
            {"name": "eve", "passwort": password},
        ):
            self.ask("POST", "/v1/users", json.dumps(body).encode())
        for shown in (f"ada:{password}", f"ada:{password}x", f"{password}:ada", f"eve:{password}"):
            basic = {"Authorization": f"Basic {base64.b64encode(shown.encode()).decode()}"}
            self.ask("GET", "/v1/me", headers=basic)
            change = {"password": password, "newPassword": canary("new-password-0123456789-0123456789")}
            self.ask("PUT", "/v1/me/password", json.dumps(change).encode(), headers=basic)
        self.ask("GET", "/v1/users")
        self.ask("GET", "/v1/users/ada")

    def _keys(self) -> None:
        wrong = canary("wrong-key-0123456789-0123456789-0123456789")
        for headers in (
            {"Authorization": f"Basic {API_KEY}"},
            {"Authorization": API_KEY},
            {"Authorization": "Basic " + base64.b64encode(f"ada:{wrong}".encode()).decode()},
            {"Authorization": "Basic " + base64.b64encode(wrong.encode()).decode()},
            {"Authorization": f"Bearer {API_KEY}, Bearer {wrong}"},
            {"Authorization": f"Bearer {wrong}"},
            {"X-Service-Api-Key": wrong, "Authorization": f"Bearer {API_KEY}"},
            {"Cookie": f"key={API_KEY}"},
            {"X-Api-Key": API_KEY},
        ):
            for path in ("/v1/runs", "/v1/version", "/nowhere"):
                self.ask("GET", path, headers=headers)
        self.ask("GET", f"/v1/runs?api_key={API_KEY}", headers={})
        self.ask("POST", f"/v1/apply?key={quote(API_KEY)}")

    def _git(self) -> None:
        first, second = self.clean.commit(), self.leaky.commit()
        self.daemon.configure(
            [watched("clean", self.clean.path), watched("leaky", self.leaky.path, project="leaky", acceptInvalid=True)]
        )
        self.daemon.reload()
        for repository, commit in (("clean", first), ("leaky", second)):
            self.daemon.run_of(repository, commit)
            self.ask("POST", f"/v1/repositories/{repository}/reconcile")
        self.leaky.write("documents/00.json", "{}")  # a type goes, and its users with other files
        self.leaky.remove("broken")
        self.leaky.remove("documents/05.json")
        self.daemon.run_of("leaky", self.leaky.commit())

    def _reads(self) -> None:
        kinds = (*places.COMPONENTS, *(f"{kind}Type" for kind in places.COMPONENTS), "Configuration")
        leaky = {"Authorization": f"Bearer {API_KEY}", "X-Service-Project": "leaky"}
        for headers in (None, leaky):
            for kind in kinds:
                for query in ("", "?selector=team%3Dred", "?selector=team", "?limit=1", "?after=a"):
                    self.ask("GET", f"/v1/resources/{kind}{query}", headers=headers)
                for name in ("secretive", "hook", "inline", "probe", "unknown", "wrong", "referring"):
                    self.ask("GET", f"/v1/resources/{kind}/{name}", headers=headers)
                    self.ask("GET", f"/v1/{kind}/{name}/history", headers=headers)
        for path in ("/livez", "/readyz", "/metrics", "/openapi.json", "/v1/version", "/v1/audit-events"):
            self.ask("GET", path)
        for path in ("repositories", "repositories/clean", "repositories/leaky", "runs?limit=100"):
            self.ask("GET", f"/v1/{path}")
        for value in (canary("Destination-string"), canary("nowhere"), canary("")):
            for query in ("?dryRun=true", ""):
                body = json.dumps({"value": value}).encode()
                self.ask("POST", f"/v1/Destination/secretive/history/redact{query}", body)
        for run in self.daemon.runs():
            self.ask("GET", f"/v1/runs/{run['id']}")

    def _commands(self) -> None:
        for project in ("default", "leaky"):
            for kind in ("destinations", "sources", "configurations"):
                for form in ("table", "wide", "json", "yaml", "name"):
                    self.command("get", kind, "-o", form, "--project", project)
            for name in ("secretive", "hook", "wrong"):
                self.command("get", "destination", name, "-o", "yaml", "--project", project)
                for form in ("table", "json", "yaml"):
                    self.command("history", "destination", name, "-o", form, "--project", project)
            self.command("export", f"export-{project}", "--project", project)
        for arguments in (
            ("status",),
            ("status", "-o", "json"),
            ("runs",),
            ("runs", "-o", "json"),
            ("runs", "--last", "leaky"),
            ("runs", "--last", "leaky", "-o", "json"),
            ("reconcile", "leaky", "--wait"),
            ("schema", "destination"),
            ("suspend", "clean", "--reason", "a test"),
            ("resume", "clean"),
            ("approve", "leaky", self.leaky.head()),
            ("version",),
        ):
            self.command(*arguments)
        self._files_of_commands()
        self._run_commands()
        for path in (self.folder / "export-default", self.folder / "export-leaky"):
            for file in sorted(path.rglob("*.yaml")):
                self.found.printed[str(file.relative_to(self.folder))] = file.read_bytes()

    def _files_of_commands(self) -> None:
        for path, text in places.broken_files():
            if path.endswith(("0.yaml", "5.yaml", "0.json", "5.json")):
                (self.folder / "one").mkdir(exist_ok=True)
                (self.folder / "one" / path.rpartition("/")[2]).write_text(text)
        for number, one in enumerate((*places.good(), *places.incomplete(), *places.bad(), *places.undescribed())):
            (self.folder / "one" / f"document-{number}.json").write_text(places.as_file(one))
        self.command("validate", "one")
        self.command("validate", "one", "-o", "json")
        for more in ([], ["--dry-run"], ["--atomic"], ["-o", "json"]):
            self.command("apply", "-f", "one", *more)
        text = "\n---\n".join(map(places.as_file, (*places.good(), *places.undescribed())))
        for more in ([], ["--dry-run"], ["--accept-invalid"], ["-o", "yaml"]):
            self.command("apply", "-f", "-", *more, stdin=text)
        self.command("delete", "-f", "-", "--dry-run", stdin=text)
        self.command("status", "--api-key", canary("wrong-key-in-an-option-0123456789"))
        self.command("status", "--server", f"http://u:{canary('in-a-server-url')}@127.0.0.1:1")

    def _settings(self) -> None:
        url = f"https://u:{canary('in-a-url')}@git.example/a.git"
        mistakes = {
            "apiKey": canary("key-in-a-file"),
            "repositories": [{"name": "a", "url": url, "credentials": {"password": canary("in-credentials")}}],
            "auth": {"oidc": {"oauth2ClientSecret": [canary("in-oidc")]}},
            "outbound": {"proxy": f"http://u:{canary('in-a-proxy')}@proxy.example"},
        }
        file = self.folder / "settings.yaml"
        file.write_text(json.dumps(mistakes))
        variables = {"SERVICE_REPOSITORY": url, "SERVICE_API_KEY": canary("short"), "PATH": os.environ["PATH"]}
        command = [str(COMMAND), "serve", "--config", str(file)]
        ran = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False, env=variables)
        assert (ran.returncode, len(ran.stderr.splitlines())) == (1, 7), ran.stderr
        self.found.printed["serve with bad settings"] = ran.stdout + ran.stderr
        for text in (f"!{canary('tag')} x", f'"{canary("unclosed")}', f"*{canary('alias')}"):
            file.write_text(f"auth: {{oidc: {{oauth2ClientSecret: {text}")
            self.found.printed[f"settings with {text}"] = _refusal(file).encode()
        before = self.daemon.config.read_text()
        self.daemon.config.write_text(json.dumps(mistakes))
        assert "not reloaded" in self.daemon.reload()
        self.daemon.config.write_text(before)

    @contextlib.contextmanager
    def _watching_processes(self) -> Iterator[None]:
        """Look at whatever the daemon starts meanwhile: git lives for a few milliseconds, so some are missed."""
        stop = threading.Event()

        def watch() -> None:
            while not stop.is_set():
                self._processes()

        thread = threading.Thread(target=watch, name="watching-processes")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _processes(self) -> None:
        """The worker and whatever else the daemon has started, and the command line of the daemon itself.

        Between fork and exec a process is still the daemon's image, which is no news; so what was its command line
        before and after its environment was read counts.
        """
        own = Path(f"/proc/{self.daemon.process.pid}/cmdline").read_bytes()
        self.found.processes["daemon"] = own
        for process in self.daemon.children():
            with contextlib.suppress(OSError):
                before, environment, after = (
                    Path(f"/proc/{process}/{what}").read_bytes() for what in ("cmdline", "environ", "cmdline")
                )
                if before == after != own:
                    self.found.processes[f"{process}"] = before + environment

    def _deletes(self) -> None:
        for documents in ([*places.good(), *places.bad()], [*places.undescribed()]):
            for query in ("?dryRun=true", ""):
                self.ask("POST", f"/v1/delete{query}", json.dumps(documents).encode())
        self.ask("DELETE", "/v1/resources/Destination/wrong")
        self.ask("DELETE", "/v1/resources/DestinationType/probe")
        self.ask("GET", "/v1/Destination/secretive/history")

    # What is stored

    def _files(self) -> None:
        state = self.daemon.state
        copy = self.folder / "store-without-secrets.db"
        shutil.copyfile(state / "store.db", copy)
        with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as store:
            (self.secrets,) = store.execute("select count(*) from version where secrets is not null").fetchone()
            store.execute("update version set secrets = null")
            store.execute("vacuum")
        self.found.files["store.db without version.secrets"] = copy.read_bytes()
        for path in sorted(state.rglob("*")):
            below = path.relative_to(state)
            if path.is_file() and below.parts[0] not in ("mirrors", "secrets") and path.name not in MEANT:
                self.found.files[str(below)] = path.read_bytes()
        for mirror in sorted((state / "mirrors").iterdir()):
            self.found.objects[mirror.name] = _objects(mirror)
            for path in _plain_files(mirror):
                self.found.files[str(path.relative_to(state))] = path.read_bytes()


def _refusal(file: Path) -> str:
    """Return what is said of settings that cannot be used."""
    try:
        loading.load(config=file, environment={}, overrides={})
    except loading.SettingsError as error:
        return "\n".join(error.lines)
    raise AssertionError("the settings are good")


def _objects(mirror: Path) -> bytes:
    command = ["git", "--git-dir", str(mirror), "cat-file", "--batch", "--batch-all-objects"]
    return subprocess.run(command, capture_output=True, timeout=SECONDS, check=True).stdout


def _plain_files(mirror: Path) -> Iterator[Path]:
    """Return what is in a mirror beside the packs, which are compressed and unpacked above."""
    return (path for path in sorted(mirror.rglob("*")) if path.is_file() and path.suffix != ".pack")


def gather(folder: Path) -> tuple[Evidence, Gathering]:
    """All there is."""
    gathering = Gathering(folder)
    try:
        return gathering.everything(), gathering
    finally:
        daemons.end(gathering.daemon)
