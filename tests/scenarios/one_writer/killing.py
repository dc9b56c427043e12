"""Killing a daemon, its worker or its PostgreSQL at any moment of commits, applies and first reads.

Every acknowledged write is there, nothing is there in part, and in the end the store holds what a daemon that was never
killed holds.
"""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeAlias

from tests import daemons
from tests.daemons import Daemon, asked, destination, watched
from tests.postgresql.servers import Server
from tests.repositories import Repository
from tests.scenarios.one_writer import stored

SEED = 20261123
WRITERS, GROUP = 3, 5
STARTS = 0.1  # of the kills, while the daemon starts
WORKERS = 0.5  # of the other lives: the worker is killed, and the daemon later
SERVERS = 0.5  # of the lives on a server that may be killed: the server is, and the daemon lives on
WHOLE_EVERY = 50  # kills: the whole database is verified
ONE, FIRST = "one", "first"
SECONDS = 60.0

Moments: TypeAlias = list[tuple[float, Callable[[], object]]]
"""After how many seconds something is killed, and how."""


class Unavailable(Exception):
    """The daemon could not read its store."""


class Telemetry:
    """A repository whose commits each change every file and delete a seventh of them: a commit in part shows."""

    def __init__(self, folder: Path, *, files: int, text: int) -> None:
        self.source = Repository.init(folder)
        self.commits: list[str] = []
        self._files, self._text = files, "x" * text

    def commit(self) -> None:
        number = len(self.commits)
        for file in range(self._files):
            path = f"{file % 5}/{file}.yaml"
            if (file + number) % 7:
                self.source.write(path, destination(f"git-{file}", f"{number} {self._text}"))
            else:
                (self.source.path / path).unlink(missing_ok=True)
        self.commits.append(self.source.commit())

    def names(self, number: int) -> set[str]:
        """Return what a commit holds."""
        return {f"git-{file}" for file in range(self._files) if (file + number) % 7}

    def shown(self, daemon: Daemon) -> int | None:
        """The number of the commit whose resources are stored, all and no others; None before the first."""
        found = {name: text for name, text in descriptions(daemon).items() if name.startswith("git-")}
        numbers = {int(text.split()[0]) for text in found.values()}
        if not found:
            return None
        assert len(numbers) == 1, f"resources of several commits: {sorted(numbers)}"
        [number] = numbers
        assert found.keys() == self.names(number), f"commit {number} is there in part"
        return number


class Group:
    """Resources that are applied together and deleted together, and what the client was told of it."""

    def __init__(self, name: str) -> None:
        self.members = [f"api-{name}-{number}" for number in range(GROUP)]
        self._sent: list[str | None] = [None]  # descriptions; None: deleted
        self.acknowledged = 0

    def change(self, daemon: Daemon, *, deletes: bool) -> None:
        """Send a request. Without an answer nobody knows whether it happened: either is right."""
        text = None if deletes else str(len(self._sent))
        self._sent.append(text)
        if text is None:
            answer = daemon.post("/v1/delete", [asked(member) for member in self.members])
        else:
            answer = daemon.post("/v1/apply", {"resources": [asked(member, text) for member in self.members]})
        if answer.status == 202:
            self.acknowledged = len(self._sent) - 1
        else:
            assert answer.status == 503, answer
            assert "retry-after" in answer.headers

    def check(self, present: dict[str, str]) -> None:
        """It is as the last acknowledged request left it, or a later one; whole."""
        found = {present.get(member) for member in self.members}
        assert len(found) == 1, f"a request in part: {found}"
        assert found <= set(self._sent[self.acknowledged :]), f"an acknowledged write is lost: {self.members[0]}"


@contextlib.contextmanager
def writing(daemon: Daemon, groups: list[Group], chance: random.Random) -> Iterator[None]:
    """Clients change the groups, each one of them, for as long as this lasts."""
    ended = threading.Event()

    def write(group: Group, own: random.Random) -> None:
        while not ended.is_set():
            try:
                group.change(daemon, deletes=own.random() < 0.15)
            except (OSError, HTTPException, ValueError):
                ended.wait(0.05)

    threads = [threading.Thread(target=write, args=(group, random.Random(chance.random()))) for group in groups]  # noqa: S311 - no secret
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


class Scene:
    """A daemon that follows a repository that changes, clients that write, and one first read after another."""

    def __init__(self, folder: Path, *, files: int, text: int) -> None:
        self.telemetry = Telemetry(folder / "source", files=files, text=text)
        self.telemetry.commit()
        self.files = files
        self.static = Repository.init(folder / "static")
        for number in range(files):
            self.static.write(f"{number}.yaml", destination(f"first-{number}"))
        self.static.commit()
        self.groups = [Group(str(number)) for number in range(WRITERS)]
        self.firsts = 0
        self.applied = -1  # the latest commit that the daemon has told to be applied
        self.is_read = False  # the present first read was told to be done
        self.daemon = Daemon(folder / "daemon", has_real_reader=True)

    def begin(self) -> float:
        """Start the daemon until everything is read, and kill it. Return the seconds that this took."""
        begun = time.monotonic()
        self.daemon.start()
        self.settled()
        seconds = time.monotonic() - begun
        self.daemon.kill()
        return seconds

    def configure(self, *, another: bool) -> None:
        """Follow the repository that changes, and one that was never read if `another`."""
        if another:
            self.firsts, self.is_read = self.firsts + 1, False
        name = self.first
        self.daemon.configure(
            [
                watched(ONE, self.telemetry.source.path, interval="500ms", prune={"maxPercent": 100}),
                watched(name, self.static.path, project=name, interval="1h"),
            ]
        )

    @property
    def first(self) -> str:
        """The repository that is read for the first time, and its project."""
        return f"{FIRST}-{self.firsts}"

    def live(self, chance: random.Random, moments: Moments) -> None:
        """Let clients write and Git change until things are killed, each after so many seconds."""
        timers = [threading.Timer(seconds, kill) for seconds, kill in moments]
        with writing(self.daemon, self.groups, chance):
            for timer in timers:
                timer.start()
            while any(timer.is_alive() for timer in timers):
                self.telemetry.commit()
                with contextlib.suppress(OSError, HTTPException, Unavailable):
                    self.look()

    def outlive(self, server: Server, chance: random.Random, seconds: float) -> None:
        """Live on while the server of the store crashes after so many seconds and starts again."""
        self.live(chance, [(seconds, partial(server.restart, "immediate"))])
        daemons.until(lambda: self.daemon.get("/readyz").status == 200, "it serves again", seconds=SECONDS)
        self.check()

    def live_until_acknowledged(self, chance: random.Random) -> None:
        """Let clients write until each has had an acknowledgement in this life, however slow the machine; then kill."""
        before = [group.acknowledged for group in self.groups]
        with writing(self.daemon, self.groups, chance):
            daemons.until(
                lambda: all(group.acknowledged > one for group, one in zip(self.groups, before, strict=True)),
                "each client has an acknowledgement",
                seconds=SECONDS,
            )
            self.daemon.kill()

    def look(self) -> None:
        """Nothing is shown in part meanwhile. Remember what is told to be done."""
        told = read(self.daemon, f"/v1/repositories/{ONE}")["repository"]["commit"]
        shown = self.telemetry.shown(self.daemon)
        if told is not None:
            number = self.telemetry.commits.index(told)
            assert shown is not None
            assert shown >= number >= self.applied
            self.applied = number
        runs = read(self.daemon, f"/v1/runs?limit=100&repository={self.first}")["runs"]
        self.is_read = self.is_read or any(run["outcome"] == "succeeded" for run in runs)

    def check(self) -> None:
        """After a kill and a start, while no client writes."""
        present = descriptions(self.daemon)
        for group in self.groups:
            group.check(present)
        self.look()
        first = self.daemon.resources("Destination", project=self.first)
        assert len(first) in ((self.files,) if self.is_read else (0, self.files)), "a first read is there in part"
        history = self.daemon.history("Destination", f"git-{len(present) % self.files}")
        assert [one["metadata"]["version"] for one in history] == list(range(len(history), 0, -1))

    def settled(self) -> None:
        """Wait until everything is applied."""
        head = self.telemetry.commits[-1]
        daemons.until(lambda: self.daemon.repository(ONE)["commit"] == head, "the head is applied", seconds=SECONDS)
        [run] = daemons.until(lambda: self.daemon.runs(self.first) or None, "it is read", seconds=SECONDS)
        assert (run["outcome"], run["counts"]) == ("succeeded", {"created": self.files})


def kill_again_and_again(folder: Path, *, kills: int, files: int, text: int, server: Server | None = None) -> None:
    """Kill so many times. `server` is the one that the daemon's store is on, if it is to be killed too."""
    chance = random.Random(SEED)  # noqa: S311 - moments, no secret
    scene = Scene(folder, files=files, text=text)
    daemon, killed = scene.daemon, 0
    try:
        scene.configure(another=True)
        longest = scene.begin() / 2  # of what a start and both reads take on this machine
        while killed < kills:
            scene.configure(another=scene.is_read)
            life = chance.uniform(0, longest)
            if chance.random() < STARTS:
                daemon.launch()
                time.sleep(life / 4)  # most likely it does not listen yet
                daemon.kill()
            else:
                daemon.start()
                scene.check()
                while server is not None and killed < kills - 1 and chance.random() < SERVERS:
                    scene.outlive(server, chance, life)
                    killed += 1
                moments: Moments = [(life, partial(kill, daemon.process.pid))]
                if chance.random() < WORKERS:
                    moments.append((chance.uniform(0, life), partial(kill, daemon.reader())))
                scene.live(chance, moments)
                daemon.kill()
                killed += len(moments) - 1
            killed += 1
            stored.check(daemon, scene.telemetry.source, repository=ONE)
            if killed % WHOLE_EVERY == 0:
                stored.check_whole(daemon)
        daemon.start()
        scene.check()
        scene.live_until_acknowledged(chance)
        daemon.start()
        scene.check()
        scene.settled()
        with daemons.running(folder / "fresh", repositories=list(daemon.repositories.values())) as fresh:
            fresh.run_of(ONE, scene.telemetry.commits[-1])
            assert from_git(daemon) == from_git(fresh)
        assert daemon.stop() == 0
    finally:
        daemons.end(daemon)
    stored.check(daemon, scene.telemetry.source, repository=ONE)
    stored.check_whole(daemon)


def kill(process: int) -> None:
    """Kill it, unless it has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def read(daemon: Daemon, path: str) -> dict[str, Any]:
    """GET. Raises Unavailable."""
    answer = daemon.get(path)
    if answer.status == 503:
        raise Unavailable(answer)
    assert answer.status == 200, answer
    return dict(answer.body)


def descriptions(daemon: Daemon) -> dict[str, str]:
    """The description of each Destination of the default project."""
    found = read(daemon, "/v1/resources/Destination")["resources"]
    return {one["metadata"]["name"]: one["metadata"]["description"] for one in found}


def from_git(daemon: Daemon) -> list[dict[str, Any]]:
    """Content from Git, less what another daemon cannot know: ids, versions, dates, and the commits of a version."""
    found = [one for one in daemon.resources("Destination") if one["metadata"]["name"].startswith("git-")]
    for one in found:
        for key in ("id", "version", "dateModified", "hash"):
            del one["metadata"][key]
        for key in ("commit", "date", "changedBy"):
            one["status"]["source"].pop(key, None)
    return found
