"""Over ssh: every type of key and of host key, who is let in, whom we trust, and what changes while the daemon runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemons import Daemon, until
from tests.scenarios.remote_cases.conftest import Follow
from tests.scenarios.remote_cases.remote import Upstream, mirrors, secret_file
from tests.servers import chaos, processes, ssh
from tests.servers.ssh import Key, Server

pytestmark = pytest.mark.slow

PASSPHRASE = "canary-passphrase"
BOTH = {"a": 1, "b": 1}

# Every algorithm of host keys that OpenSSH's server signs with, and the kind of key for it.
HOST_KEY_ALGORITHMS = {
    "ssh-ed25519": "ed25519",
    "rsa-sha2-256": "rsa",
    "rsa-sha2-512": "rsa",
    "ecdsa-sha2-nistp256": "ecdsa-256",
    "ecdsa-sha2-nistp384": "ecdsa-384",
    "ecdsa-sha2-nistp521": "ecdsa-521",
}


@pytest.fixture
def key(tmp_path: Path) -> Key:
    return ssh.make_key(tmp_path / "key")


@pytest.fixture
def server(tmp_path: Path, key: Key) -> Iterator[Server]:
    """A server that lets the key in."""
    with ssh.serving(tmp_path / "sshd", authorized=[key]) as server:
        yield server


def credentials(key: Key, hosts: Path, **more: object) -> dict[str, str]:
    """The section of the settings."""
    given = {"sshKeyFile": key.private, "knownHostsFile": hosts, **more}
    return {name: str(value) for name, value in given.items()}


# Our keys


@pytest.mark.parametrize("passphrase", ["", PASSPHRASE], ids=["plain", "passphrase"])
@pytest.mark.parametrize("kind", ssh.KINDS)
def test_each_type_of_key_lets_us_in_with_a_passphrase_and_without(
    *, server: Server, upstream: Upstream, follow: Follow, tmp_path: Path, kind: str, passphrase: str
) -> None:
    own = ssh.make_key(tmp_path / "own", kind, passphrase=passphrase)
    server.authorize(own)
    more = {"sshPassphraseFile": secret_file(tmp_path / "passphrase", passphrase)} if passphrase else {}
    hosts = server.known_hosts(tmp_path / "known_hosts")
    remote = follow(server.url(upstream.bare.path), credentials=credentials(own, hosts, **more))
    remote.reads(upstream.source.head())
    remote.reads(upstream.push())
    assert remote.versions() == {**BOTH, "c": 1}


def test_a_key_that_is_let_in_nowhere_is_told_and_works_once_it_is(
    *, server: Server, key: Key, upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    hosts = server.known_hosts(tmp_path / "known_hosts")
    remote = follow(server.url(upstream.bare.path), credentials=credentials(key, hosts))
    remote.reads(upstream.source.head())
    pushed = upstream.push()
    server.authorize()
    remote.fails("unauthorized", "refuses the ssh key", "`credentials.sshKeyFile`")
    assert (remote.versions(), remote.shown()["head"] != pushed) == (BOTH, True)
    server.authorize(key)
    remote.reads(pushed)


def test_a_key_that_is_replaced_is_taken_from_its_file_without_a_restart(
    *, server: Server, upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    hosts = server.known_hosts(tmp_path / "known_hosts")
    passphrase = secret_file(tmp_path / "passphrase", PASSPHRASE)
    current = ssh.make_key(tmp_path / "current", passphrase=PASSPHRASE)
    server.authorize(current)
    remote = follow(
        server.url(upstream.bare.path), credentials=credentials(current, hosts, sshPassphraseFile=passphrase)
    )
    remote.reads(upstream.source.head())
    other = ssh.make_key(tmp_path / "other", "ecdsa-256", passphrase="canary-other")
    server.authorize(other)
    pushed = upstream.push()
    remote.fails("unauthorized")
    secret_file(passphrase, "canary-other")
    other.private.replace(current.private)
    remote.reads(pushed)


@pytest.mark.parametrize("content", [None, b"", b"no key at all\n", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n"])
def test_a_file_that_holds_no_key_is_named_and_read_once_it_does(
    *, server: Server, key: Key, upstream: Upstream, follow: Follow, tmp_path: Path, content: bytes | None
) -> None:
    good = key.private.read_bytes()
    if content is None:
        key.private.unlink()
    else:
        secret_file(key.private, content)
    hosts = server.known_hosts(tmp_path / "known_hosts")
    remote = follow(server.url(upstream.bare.path), credentials=credentials(key, hosts))
    remote.fails("unauthorized", str(key.private))
    secret_file(key.private, good)
    remote.reads(upstream.source.head())


def test_a_key_that_others_may_read_is_told_and_works_once_they_may_not(
    *, server: Server, key: Key, upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    key.private.chmod(0o644)
    hosts = server.known_hosts(tmp_path / "known_hosts")
    remote = follow(server.url(upstream.bare.path), credentials=credentials(key, hosts))
    remote.fails("unauthorized", str(key.private))
    key.private.chmod(0o600)
    remote.reads(upstream.source.head())


@pytest.mark.parametrize("given", [None, "canary-wrong", ""], ids=["none", "wrong", "empty"])
def test_a_passphrase_that_is_missing_or_wrong_is_told_and_nobody_is_asked_for_it(
    *, server: Server, upstream: Upstream, follow: Follow, tmp_path: Path, given: str | None
) -> None:
    own = ssh.make_key(tmp_path / "own", passphrase=PASSPHRASE)
    server.authorize(own)
    hosts = server.known_hosts(tmp_path / "known_hosts")
    file = tmp_path / "passphrase"
    chosen = credentials(own, hosts) if given is None else credentials(own, hosts, sshPassphraseFile=file)
    if given is not None:
        secret_file(file, given)
    remote = follow(server.url(upstream.bare.path), credentials=chosen)
    remote.fails("unauthorized", *([str(file)] if given == "" else [str(own.private), "sshPassphraseFile"]))
    secret_file(file, PASSPHRASE)
    if given is None:
        remote.follow(credentials=credentials(own, hosts, sshPassphraseFile=file))
    remote.reads(upstream.source.head())


# The server's keys


@pytest.mark.parametrize("hashed", [False, True], ids=["plain", "hashed"])
@pytest.mark.parametrize("algorithm", HOST_KEY_ALGORITHMS)
def test_each_algorithm_of_host_keys_is_known_under_its_name_plain_or_hashed(
    *, key: Key, upstream: Upstream, follow: Follow, tmp_path: Path, algorithm: str, hashed: bool
) -> None:
    shown = ssh.make_key(tmp_path / "host", HOST_KEY_ALGORITHMS[algorithm])
    with ssh.serving(tmp_path / "sshd", authorized=[key], host_key=shown, algorithms=algorithm) as server:
        hosts = server.known_hosts(tmp_path / "known_hosts", hashed=hashed)
        remote = follow(server.url(upstream.bare.path), credentials=credentials(key, hosts))
        remote.reads(upstream.source.head())


@pytest.mark.parametrize("hashed", [False, True], ids=["plain", "hashed"])
def test_a_host_key_that_changed_is_told_and_never_trusted_until_somebody_says_so(
    *, key: Key, upstream: Upstream, follow: Follow, tmp_path: Path, hashed: bool
) -> None:
    hosts = tmp_path / "known_hosts"
    with ssh.serving(tmp_path / "first", authorized=[key]) as server, chaos.before(server.port) as proxy:
        server.known_hosts(hosts, port=proxy.port, hashed=hashed)
        known = hosts.read_bytes()
        remote = follow(server.url(upstream.bare.path, port=proxy.port), credentials=credentials(key, hosts))
        remote.reads(upstream.source.head())
        pushed = upstream.push()
        with ssh.serving(tmp_path / "second", authorized=[key]) as other:
            proxy.target = other.port
            remote.looks()
            remote.fails("unreachable", "shows another key", "`credentials.knownHostsFile`")
            assert BOTH.items() <= remote.versions().items()
            assert (hosts.read_bytes(), other.accepted()) == (known, 0)
            other.known_hosts(hosts, port=proxy.port, hashed=hashed)
            remote.reads(pushed)


@pytest.mark.parametrize(
    ("content", "state"),
    [("", "unauthorized"), ("# nobody\n", "unauthorized"), ("git.example ssh-ed25519 AAAA\n", "unreachable")],
)
def test_a_host_that_is_not_known_is_told_and_not_written_down(
    *, server: Server, key: Key, upstream: Upstream, follow: Follow, tmp_path: Path, content: str, state: str
) -> None:
    hosts = tmp_path / "known_hosts"
    hosts.write_text(content)
    remote = follow(server.url(upstream.bare.path), credentials=credentials(key, hosts))
    remote.fails(state, str(hosts) if state == "unauthorized" else "is not in `credentials.knownHostsFile`")
    assert (hosts.read_text(), server.accepted()) == (content, 0)
    server.known_hosts(hosts)
    remote.reads(upstream.source.head())


def test_a_file_of_known_hosts_that_is_missing_is_named(
    *, server: Server, key: Key, upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    hosts = tmp_path / "known_hosts"
    remote = follow(server.url(upstream.bare.path), credentials=credentials(key, hosts))
    remote.fails("unauthorized", str(hosts))
    assert not hosts.exists()
    server.known_hosts(hosts)
    remote.reads(upstream.source.head())


def test_keys_and_hosts_of_whoever_runs_the_daemon_count_for_nothing(
    *, server: Server, key: Key, upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    stranger = ssh.make_key(tmp_path / "stranger")
    server.authorize(stranger)
    hosts = server.known_hosts(tmp_path / "known_hosts")
    remote = follow(server.url(upstream.bare.path), credentials=credentials(key, hosts))
    remote.fails("unauthorized")
    attempts = server.log.read_text().count("Failed publickey")
    connections = server.log.read_text().count("Accepted") + server.log.read_text().count("Connection from")
    assert attempts <= connections  # one key each time, no other of an agent or a home
    server.authorize(key)
    remote.reads(upstream.source.head())


def test_what_is_no_repository_behind_ssh_is_told(
    *, server: Server, key: Key, upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    hosts = server.known_hosts(tmp_path / "known_hosts")
    gone = upstream.served / "later.git"
    remote = follow(server.url(gone), credentials=credentials(key, hosts))
    remote.fails("unreachable", "repository")
    upstream.bare.path.rename(gone)
    remote.reads(upstream.source.head())


def test_nothing_runs_for_a_key_with_a_passphrase_once_its_repository_is_followed_no_more(
    *, daemon: Daemon, server: Server, upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    own = ssh.make_key(tmp_path / "own", passphrase=PASSPHRASE)
    server.authorize(own)
    passphrase = secret_file(tmp_path / "passphrase", PASSPHRASE)
    hosts = server.known_hosts(tmp_path / "known_hosts")
    given = credentials(own, hosts, sshPassphraseFile=passphrase)
    remote = follow(server.url(upstream.bare.path), credentials=given, interval="1h")
    remote.reads(upstream.source.head())
    daemon.follow_nothing()
    reader = daemon.reader()
    reading = {reader, *processes.descendants(reader)}
    until(lambda: set(processes.descendants(daemon.process.pid)) == reading or None, "only the worker runs")


# What the server's side may say


@pytest.mark.parametrize(
    "words", ["bad object refs/reconciler/head", "mismatched algorithms: client sha1", "Authentication failed for x"]
)
def test_a_server_that_speaks_like_git_chooses_no_state_and_does_not_have_a_mirror_made_anew(
    *, daemon: Daemon, server: Server, key: Key, upstream: Upstream, follow: Follow, tmp_path: Path, words: str
) -> None:
    hosts = server.known_hosts(tmp_path / "known_hosts")
    remote = follow(server.url(upstream.bare.path), credentials=credentials(key, hosts))
    remote.reads(upstream.source.head())
    made = [mirror.stat().st_ino for mirror in mirrors(daemon)]
    pushed = upstream.push()
    says = f'command="echo fatal: {words} >&2; exit 1"'
    server.authorize(Key(key.private, f"{says} {key.public}"))
    remote.fails("unreachable", f"(it says: fatal: {words})")
    remote.looks()
    assert [mirror.stat().st_ino for mirror in mirrors(daemon)] == made
    assert b"made anew" not in daemon.log.read_bytes()
    server.authorize(key)
    remote.reads(pushed)
