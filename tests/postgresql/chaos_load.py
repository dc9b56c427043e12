"""The clients of a chaos run, and what they were told: commits, applies, sign-ins and log records.

Each load is a thread that repeats a change until it is acknowledged, and afterwards says what must be there. It notes
in `wrong` what it sees that may not be: a commit in part, a state older than it was told, a lost session.
"""

import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests import daemons
from tests.daemons import Answer
from tests.postgresql import clusters
from tests.postgresql.clusters import Caller, Cluster
from tests.repositories import Repository
from tests.servers.sinks import Sink

FILES = 6  # of a repository: each commit changes all of them
GROUP = 4  # resources that are applied together
RECORDS = 10  # in a request
APPLIERS, SENDERS, PEOPLE = 3, 2, 12
RECORDS_PROJECT = "records"
ENDED_SECONDS = 180.0
SHOWN_SECONDS = 150.0  # until a commit is there, whatever happens meanwhile
PASSWORD = "canary-chaos-of-a-person"
SIGN_INS = 18  # of a person, who may have 20 sessions
REVISION = "x-revision"
POLL_SECONDS = 0.1
AGAIN_SECONDS = 0.3
ROUTED_SECONDS = 30.0


class Load(threading.Thread):
    """One client. `answers` counts what it got, `failed` what is wrong with the service by method, status and code."""

    def __init__(self, name: str, port: int) -> None:
        super().__init__(name=name, daemon=True)
        self.answers = 0
        self.failed: Counter[tuple[str, int, str]] = Counter()
        self.wrong: list[str] = []
        self._caller = Caller(port)
        self._ended = threading.Event()
        self._random = random.Random(name)  # noqa: S311 - pauses, no secret
        self.revision: str | None = None
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Do one thing after the other until the end."""
        try:
            while not self._ended.is_set():
                self.once()
        except BaseException as failure:  # whoever waits for the end is to know
            self._failure = failure
        finally:
            self._caller.close()

    def once(self) -> None:
        """Do one thing, to its end."""
        raise NotImplementedError

    def end(self) -> None:
        """Begin nothing more."""
        self._ended.set()

    def ended(self, *, seconds: float) -> None:
        """Wait until what it had begun is done."""
        self.join(seconds)
        if self._failure is not None:
            raise self._failure
        assert not self.is_alive(), f"{self.name} does not end"

    def note(self, method: str, answer: Answer) -> None:
        """Count an answer; status 0 is none."""
        self.answers += 1
        if answer.status == 0 or answer.status >= 500:
            codes = answer.body.get("codes", []) if isinstance(answer.body, dict) else []
            self.failed[method, answer.status, codes[0] if codes else ""] += 1

    def rest(self, least: float, most: float) -> None:
        """Wait a moment."""
        self._ended.wait(self._random.uniform(least, most))

    def ask(self, method: str, path: str, value: object = None, *, project: str | None = None) -> Answer:
        """One request, which names the newest state that this client knows."""
        headers = {"Authorization": f"Bearer {daemons.KEY}"}
        if self.revision is not None:
            headers["X-Revision"] = self.revision
        body = None if value is None else json.dumps(value).encode()
        answer = self._caller.ask(method, path, body, project=project, headers=headers)
        self.note(method, answer)
        if answer.status in (200, 202):
            self.revision = answer.headers.get(REVISION, self.revision)
        return answer


class Source:
    """A repository, alone in a project of its own. Each commit changes every file, so a commit in part shows."""

    def __init__(self, folder: Path, *, number: int) -> None:
        self.project = f"git-{number}"
        self.repository = Repository.init(folder / self.project)
        self.commits = 0
        self.commit()

    def names(self) -> list[str]:
        """Return the names of the resources."""
        return [f"{self.project}-{file}" for file in range(FILES)]

    def texts(self) -> list[str]:
        """Return the description of each version that there must be, oldest first."""
        return [f"commit {number}" for number in range(1, self.commits + 1)]

    def commit(self) -> None:
        """Make the next commit."""
        self.commits += 1
        for name in self.names():
            self.repository.write(f"{name}.yaml", daemons.destination(name, f"commit {self.commits}"))
        self.repository.commit()


class Commits(Load):
    """Commits to one repository, one after the other."""

    def __init__(self, source: Source, port: int) -> None:
        super().__init__(f"commits to {source.project}", port)
        self.source = source
        self.seconds: list[float] = []  # from each commit until it was shown
        self._shown = 0

    def once(self) -> None:
        """Make a commit, and wait until it is shown."""
        self.source.commit()
        begun = time.monotonic()
        while self._seen() < self.source.commits:
            if time.monotonic() - begun > SHOWN_SECONDS:
                self._complain(f"commit {self.source.commits} is not there after {SHOWN_SECONDS:g} s")
                return
            time.sleep(POLL_SECONDS)
        self.seconds.append(time.monotonic() - begun)
        self.rest(0.5, 2.0)

    def _seen(self) -> int:
        """The number of the newest commit whose resources were shown."""
        answer = self.ask("GET", "/v1/resources/Destination", project=self.source.project)
        resources = answer.body["resources"] if answer.status == 200 else []
        if not resources:
            return self._shown
        found = {one["metadata"]["name"]: one["metadata"]["description"] for one in resources}
        texts = set(found.values())
        if len(texts) != 1 or set(found) != set(self.source.names()):
            self._complain(f"a commit is shown in part: {sorted(texts)}, {len(found)} resources")
            return self._shown
        number = int(texts.pop().split()[1])
        if number < self._shown:
            self._complain(f"commit {number} is shown after {self._shown}, at revision {self.revision}")
        self._shown = max(self._shown, number)
        return self._shown

    def _complain(self, sentence: str) -> None:
        self.wrong.append(f"{self.source.project}: {sentence}")


class Applies(Load):
    """Applies of a group of resources, each with the next number, until it is acknowledged."""

    def __init__(self, number: int, port: int) -> None:
        super().__init__(f"applies-{number}", port)
        self.project = f"api-{number}"
        self.acknowledged: list[list[int]] = []  # the versions that each apply got, of the group

    def once(self) -> None:
        """Apply the group with the next number, and read it again."""
        number = len(self.acknowledged) + 1
        resources = [daemons.asked(name, f"apply {number}") for name in self.names()]
        answer = self.ask("POST", "/v1/apply", {"resources": resources}, project=self.project)
        if answer.status != 202:
            self.rest(AGAIN_SECONDS, 2 * AGAIN_SECONDS)
            return
        statuses = {one["status"] for one in answer.body["updates"]}
        if not statuses <= {"created", "configured", "unchanged"} or len(statuses) != 1:
            self.wrong.append(f"{self.project}: apply {number} in part: {sorted(statuses)}")
        self.acknowledged.append([one["resource"]["metadata"]["version"] for one in answer.body["updates"]])
        self._read(number)
        self.rest(0.2, 0.8)

    def names(self) -> list[str]:
        """Return the names of the resources."""
        return [f"{self.project}-{member}" for member in range(GROUP)]

    def texts(self) -> list[str]:
        """Return the description of each version that there must be, oldest first."""
        return [f"apply {number}" for number in range(1, len(self.acknowledged) + 1)]

    def _read(self, number: int) -> None:
        name = self._random.choice(self.names())
        answer = self.ask("GET", f"/v1/resources/Destination/{name}", project=self.project)
        if answer.status == 404:
            self.wrong.append(f"{self.project}: nothing is shown after apply {number}")
        if answer.status == 200:
            shown = answer.body["resource"]["metadata"]["description"]
            if shown != f"apply {number}":
                self.wrong.append(f"{self.project}: {shown} is shown after apply {number}, at revision {self.revision}")


class SignIns(Load):
    """People who sign in, one after the other, and stay."""

    def __init__(self, port: int, people: Sequence[str], *, every: float) -> None:
        super().__init__("sign-ins", port)
        self.cookies: list[str] = []
        self._people = people
        self._every = every
        self._origin = clusters.web_url(port)

    def once(self) -> None:
        """Sign somebody in, or look whether somebody still is."""
        if len(self.cookies) < SIGN_INS * len(self._people):
            self._sign_in(self._people[len(self.cookies) % len(self._people)])
        if self.cookies:
            self.look(self._random.choice(self.cookies), self._caller)
        self.rest(self._every / 2, self._every * 3 / 2)

    def look(self, cookie: str, caller: Caller) -> int:
        """Read with a session; the status."""
        answer = caller.ask("GET", "/v1/me", headers={"Cookie": cookie})
        self.note("GET", answer)
        if answer.status in (401, 403):
            self.wrong.append(f"a session is lost: {answer.body}")
        return answer.status

    def _sign_in(self, name: str) -> None:
        form = urlencode({"name": name, "password": PASSWORD, "back": "/account"}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self._origin}
        answer = self._caller.ask("POST", "/sign-in", form, headers=headers)
        self.note("POST", answer)
        cookie = re.match(r"[^=]+=[^;]+", answer.headers.get("set-cookie", ""))
        if answer.status == 303 and cookie is not None:
            self.cookies.append(cookie[0])
        elif answer.status not in (0, 502, 503, 504):
            self.wrong.append(f"signing in is answered with {answer.status}")


class Records(Load):
    """Log records, each with a text of its own."""

    def __init__(self, number: int, port: int, *, project: str) -> None:
        super().__init__(f"records-{number}", port)
        self.project = project
        self.acknowledged: set[str] = set()
        self._number = 0

    def once(self) -> None:
        """Send a request, again until it is taken."""
        texts = [f"{self.name} {self._number} {record}" for record in range(RECORDS)]
        records = [{"body": {"stringValue": text}} for text in texts]
        body = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
        headers = {"Authorization": f"Bearer {daemons.KEY}", "Content-Type": "application/json"}
        content = json.dumps(body).encode()
        answer = self._caller.ask("POST", "/v1/logs", content, project=self.project, headers=headers)
        self.note("POST", answer)
        if answer.status != 200:
            self.rest(AGAIN_SECONDS, 2 * AGAIN_SECONDS)
            return
        if answer.body:
            self.wrong.append(f"records are rejected: {answer.body}")
        self._number += 1
        self.acknowledged.update(texts)
        self.rest(0.1, 0.3)


@dataclass(slots=True)
class Loads:
    """All clients of a run."""

    commits: list[Commits]
    applies: list[Applies]
    sign_ins: SignIns
    records: list[Records]

    def all(self) -> list[Load]:
        """Return each of them."""
        return [*self.commits, *self.applies, self.sign_ins, *self.records]

    def failed(self) -> Counter[tuple[str, int, str]]:
        """Count what was wrong with the service, for all."""
        return sum((one.failed for one in self.all()), Counter[tuple[str, int, str]]())

    def end(self) -> None:
        """Begin nothing more, and wait until all that was begun is done."""
        for load in self.all():
            load.end()
        for load in self.all():
            load.ended(seconds=ENDED_SECONDS)


def begin(cluster: Cluster, sources: Sequence[Source], sink: Sink, *, sign_in_every: float) -> Loads:
    """Make what the clients need, and start them."""
    people = [f"person-{number}" for number in range(PEOPLE)]
    for name in people:
        made = cluster.post("/v1/users", {"name": name, "password": PASSWORD})
        assert made.status == 201, made
    port = cluster.balancer.port
    loads = Loads(
        [Commits(one, port) for one in sources],
        [Applies(number, port) for number in range(APPLIERS)],
        SignIns(port, people, every=sign_in_every),
        [Records(number, port, project=RECORDS_PROJECT) for number in range(SENDERS)],
    )
    for project in (RECORDS_PROJECT, *(one.project for one in loads.applies)):
        made = cluster.post("/v1/projects", {"name": project})
        assert made.status == 201, made
    applied = cluster.post("/v1/apply", {"resources": _delivering(sink)}, project=RECORDS_PROJECT)
    assert applied.status == 202, applied
    for replica in cluster.replicas:
        _until_routed(replica.port, project=RECORDS_PROJECT)
    for load in loads.all():
        load.start()
    return loads


def _delivering(sink: Sink) -> list[dict[str, Any]]:
    """Return the resources by which records go to a sink."""
    endpoint = {"scheme": "http", "hostname": "127.0.0.1", "port": sink.port, "path": "/hook"}
    return [
        _resource("Destination", "sink", {"type": "webhook", "parameters": _parameters(endpoint)}),
        _resource(
            "Configuration",
            "all",
            {"sources": [{"type": "otlp"}], "destinations": [{"name": "sink"}], "selector": {"matchLabels": {}}},
        ),
    ]


def _until_routed(port: int, *, project: str) -> None:
    """Wait until a replica delivers records of the project."""

    def is_routed() -> bool:
        with Caller(port) as caller:
            answer = caller.ask("GET", "/v1/destinations/sink/delivery", project=project)
        return answer.status == 200 and bool(answer.body["delivery"]["configurations"])

    daemons.until(is_routed, "records are delivered", seconds=ROUTED_SECONDS)


def _resource(kind: str, name: str, spec: Mapping[str, object]) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _parameters(values: Mapping[str, object]) -> list[dict[str, object]]:
    return [{"name": name, "value": value} for name, value in values.items()]
