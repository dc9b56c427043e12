"""The main path of each transport: the first read, a push that the next look finds, credentials that do not show."""

from pathlib import Path

from tests.scenarios.remote_cases.conftest import Follow
from tests.scenarios.remote_cases.remote import Upstream, secret_file
from tests.servers import gitd, https, ssh
from tests.servers.certificates import Authority

PASSWORD = "canary-password"


def test_a_repository_is_followed_over_https_with_a_password_and_an_authority_of_ones_own(
    authority: Authority, upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    credentials = {
        "username": "ada",
        "passwordFile": str(secret_file(tmp_path / "password", f"{PASSWORD}\n")),
        "caFile": str(authority.bundle),
    }
    with https.serving(upstream.served, certificate=authority.issue(), basic=("ada", PASSWORD)) as server:
        remote = follow(server.url(), credentials=credentials)
        remote.reads(upstream.source.head())
        pushed = upstream.push("c")
        remote.looks()
        remote.reads(pushed)
        assert remote.versions() == {"a": 1, "b": 1, "c": 1}
        assert server.fetches() == 2


def test_a_repository_is_followed_over_ssh_with_a_key_that_has_a_passphrase(
    upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    key = ssh.make_key(tmp_path / "key", passphrase="canary-passphrase")
    with ssh.serving(tmp_path / "sshd", authorized=[key]) as server:
        credentials = {
            "sshKeyFile": str(key.private),
            "sshPassphraseFile": str(secret_file(tmp_path / "passphrase", "canary-passphrase\n")),
            "knownHostsFile": str(server.known_hosts(tmp_path / "known_hosts", hashed=True)),
        }
        remote = follow(server.url(upstream.bare.path), credentials=credentials)
        remote.reads(upstream.source.head())
        pushed = upstream.push("c")
        remote.looks()
        remote.reads(pushed)
        assert remote.versions() == {"a": 1, "b": 1, "c": 1}


def test_a_repository_is_followed_over_the_git_protocol_on_this_machine(
    upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    with gitd.serving(upstream.served, log=tmp_path / "log") as server:
        remote = follow(server.url())
        remote.reads(upstream.source.head())
        pushed = upstream.push("c")
        remote.looks()
        remote.reads(pushed)
        assert remote.versions() == {"a": 1, "b": 1, "c": 1}
