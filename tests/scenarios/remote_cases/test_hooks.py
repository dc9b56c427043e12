"""A push that only the forge tells of: nothing polls for a day, and no file event reaches this far."""

import time
from pathlib import Path

from tests import forges
from tests.daemons import Answer, Daemon
from tests.forges import Delivery
from tests.scenarios.remote_cases.conftest import Follow
from tests.scenarios.remote_cases.remote import Remote, Upstream, secret_file
from tests.servers import gitd

OTHER = b"canary-another-secret"


def deliver(daemon: Daemon, remote: Remote, delivery: Delivery) -> Answer:
    """POST it to the repository's hook."""
    return daemon.ask("POST", f"/hooks/{remote.name}", delivery.body, delivery.headers)


def test_a_commit_is_applied_when_a_forge_tells_of_it_with_the_secret_that_the_file_holds_by_then(
    daemon: Daemon, upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    secret = secret_file(tmp_path / "secret", OTHER)
    with gitd.serving(upstream.served, log=tmp_path / "log") as server:
        remote = follow(server.url(), interval="24h", hook={"secretFile": str(secret)})
        remote.reads(upstream.source.head())
        for number, (key, make) in enumerate(forges.every(int(time.time())).values()):
            commit = upstream.push(f"c{number}")
            secret_file(secret, OTHER)
            asked = server.requests()
            assert deliver(daemon, remote, make(str(number))).status == 404
            secret_file(secret, key + b"\n")
            assert deliver(daemon, remote, make(str(number))) == Answer(202, None)
            remote.reads(commit)
            assert daemon.run_of(remote.name, commit)["trigger"] == "hook"
            assert server.requests() == asked + 2  # to look and to fetch: the one that was refused asked for nothing
            assert deliver(daemon, remote, make(str(number))) == Answer(202, None)
        assert len(remote.versions()) == 2 + len(forges.every(0))


def test_a_hook_ends_the_wait_after_a_failure(
    daemon: Daemon, upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    secret = secret_file(tmp_path / "secret", forges.SECRET)
    away = upstream.bare.path.with_name("away.git")
    upstream.bare.path.rename(away)
    with gitd.serving(upstream.served, log=tmp_path / "log") as server:
        remote = follow(server.url(), interval="24h", hook={"secretFile": str(secret)})
        remote.fails("unreachable")
        away.rename(upstream.bare.path)
        assert deliver(daemon, remote, forges.gitea()) == Answer(202, None)
        remote.reads(upstream.source.head())
        assert daemon.run_of(remote.name, upstream.source.head())["trigger"] == "hook"
