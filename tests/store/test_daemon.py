"""A service that runs: who came in and who was refused is in the audit, its head in the log, and anybody with the file
can verify it meanwhile.
"""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.ops import databases
from reconciler.store.sqlite import SqliteStore
from tests import daemons
from tests.api.pages.browsers import PROXY, WEB_URL, Browser
from tests.daemons import COMMAND, Daemon, destination
from tests.repositories import Repository
from tests.store.chains import tamper

PASSWORD = "canary-correct-horse-battery"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """Ana is an admin of `default`."""
    with daemons.running(tmp_path / "daemon", settings={"trustedProxies": [PROXY], "webURL": WEB_URL}) as daemon:
        assert daemon.post("/v1/users", {"name": "ana", "password": PASSWORD}).status == 201
        yield daemon


def verify(daemon: Daemon, *arguments: str) -> tuple[int, list[str], str]:
    config = ("--config", str(daemon.config))
    ran = subprocess.run(
        [str(COMMAND), "audit", "verify", *config, *arguments], capture_output=True, text=True, check=False, timeout=30
    )
    return ran.returncode, ran.stdout.splitlines(), ran.stderr


def events(daemon: Daemon, query: str) -> list[dict[str, Any]]:
    return list(daemon.get(f"/v1/audit-events?{query}").body["events"])


def heads(daemon: Daemon) -> list[str]:
    return [f"{line['auditLink']}:{line['auditHash']}" for line in daemon.lines() if "auditLink" in line]


def test_who_comes_and_goes_with_a_browser_is_told(daemon: Daemon) -> None:
    browser = Browser(daemon)
    assert browser.post("/sign-in", {"name": "ana", "password": "canary-wrong"}).status == 401
    assert browser.post("/sign-in", {"name": "ana", "password": PASSWORD}).status == 303
    assert browser.post("/sign-out", {}).status == 303
    told = [(one["action"], one["name"], one["actor"], one.get("detail")) for one in events(daemon, "kind=Session")]
    assert told == [
        ("signed-out", "ana", "user:ana", None),
        ("signed-in", "ana", "user:ana", {"by": "password"}),
    ]
    assert all(one["address"] and one["request"] for one in events(daemon, "kind=Session"))
    # The attempt that failed is written with the minute, or with the end.
    daemon.stop()
    daemon.start()
    (refused,) = events(daemon, "kind=Request")
    assert (refused["action"], refused["name"], refused["actor"]) == ("refused", "401", "unknown")
    assert refused["detail"] == {"path": "/sign-in", "times": 1}


def test_the_chain_is_verified_while_the_service_runs_and_its_head_is_in_the_log(
    daemon: Daemon, tmp_path: Path
) -> None:
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", destination("a"))
    commit = source.commit()
    daemon.follow(daemons.watched("telemetry", source.path))
    daemon.run_of("telemetry", commit)
    said = daemons.until(lambda: heads(daemon)[1:], "the head after the run")[-1]
    code, lines, remark = verify(daemon, "--head", said)
    assert (code, remark) == (0, "")
    assert (lines[0].partition(" ")[0], lines[-1]) == ("verified:", f"store: {daemon.state}/store.db")
    assert lines[1].partition(" ")[0] == "head:"
    code, lines, remark = verify(daemon)
    assert (code, remark.startswith("compare the head with")) == (0, True)
    assert daemon.stop() == 0
    store = daemon.state / "store.db"
    forgotten = str(_forgotten(store, tmp_path / "forgotten"))
    code, lines, remark = verify(daemon, "--state-dir", forgotten)
    assert (code, lines, remark.startswith("error: removed early: ")) == (1, [], True)
    code, lines, remark = verify(daemon, "--state-dir", forgotten, "--retention", "1ms")
    assert (code, lines[0]) == (0, "verified: 0 links with 0 events")
    assert " removed up to it, the last of " in lines[1]
    tamper(store, "update audit set actor = 'user:eve' where kind = 'User'")
    code, lines, remark = verify(daemon, "--head", said)
    assert (code, lines, remark.startswith("error: link ")) == (1, [], True)


def _forgotten(store: Path, folder: Path) -> Path:
    """A copy of a store, in a folder of its own, from which everything went as if its time were over."""

    async def forget(path: Path) -> None:
        copy = SqliteStore(path)
        while await copy.forget_events(before="2999"):
            pass
        await copy.close()

    folder.mkdir()
    asyncio.run(forget(Path(shutil.copy(store, folder))))
    return folder


def test_a_head_that_is_none_and_a_store_that_is_not_there_are_told(daemon: Daemon, tmp_path: Path) -> None:
    assert verify(daemon, "--head", "17")[0] == 1
    code, _, said = verify(daemon, "--state-dir", str(tmp_path / "nowhere"))
    assert (code, said) == (1, f"error: there is no store at {tmp_path}/nowhere/store.db; {databases.ELSEWHERE}\n")
    assert not (tmp_path / "nowhere").exists()
