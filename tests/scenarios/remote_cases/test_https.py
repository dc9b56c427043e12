"""Over https: who signs in how, whom we trust, what a server may answer instead, and what stands between."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests import canaries
from tests.daemons import Daemon, destination, until
from tests.repositories import Repository
from tests.scenarios.remote_cases.conftest import Follow
from tests.scenarios.remote_cases.remote import Upstream, mirrors, secret_file
from tests.servers import chaos, forward, https
from tests.servers.certificates import Authority
from tests.servers.https import Refusal, Server

pytestmark = pytest.mark.slow

PASSWORD = "canary-password"
OTHER = "canary-other-password"
BOTH = {"a": 1, "b": 1}
STORM_SECONDS = 1.0  # in a storm the next look comes in less, else after two seconds or so


@pytest.fixture
def server(authority: Authority, upstream: Upstream) -> Iterator[Server]:
    """A server that anybody may read from who trusts the authority."""
    with https.serving(upstream.served, certificate=authority.issue()) as server:
        yield server


@pytest.fixture
def trust(authority: Authority) -> dict[str, str]:
    """The credentials of who trusts the authority and signs in nowhere."""
    return {"caFile": str(authority.bundle)}


# Signing in


@pytest.mark.parametrize(
    ("names", "basic", "bearer"),
    [
        ((), None, None),
        (("passwordFile", "username"), ("ada", PASSWORD), None),
        (("tokenFile", "username"), ("ada", PASSWORD), None),
        (("tokenFile",), None, PASSWORD),
    ],
    ids=["anonymous", "password", "token-as-password", "bearer"],
)
def test_each_way_to_sign_in_reads_and_shows_the_secret_to_the_server_alone(
    *,
    server: Server,
    trust: dict[str, str],
    upstream: Upstream,
    follow: Follow,
    tmp_path: Path,
    names: tuple[str, ...],
    basic: tuple[str, str] | None,
    bearer: str | None,
) -> None:
    server.basic, server.bearer = basic, bearer
    file = str(secret_file(tmp_path / "secret", f"{PASSWORD}\n"))
    given = {name: "ada" if name == "username" else file for name in names}
    remote = follow(server.url(), credentials={**trust, **given})
    remote.reads(upstream.source.head())
    assert remote.versions() == BOTH
    assert server.admits(server.authorizations()[-1])
    assert {shown is None for shown in server.authorizations()} <= {True, not names}
    if bearer:
        assert None not in server.authorizations()  # nothing is to be found out: it is shown at once


@pytest.mark.parametrize("way", ["basic", "bearer"])
def test_a_password_or_token_that_was_changed_is_told_asked_for_rarely_and_taken_from_its_file_without_a_restart(
    *, server: Server, trust: dict[str, str], upstream: Upstream, follow: Follow, tmp_path: Path, way: str
) -> None:
    file = secret_file(tmp_path / "secret", PASSWORD)
    if way == "basic":
        server.basic = ("ada", PASSWORD)
        credentials = {**trust, "username": "ada", "passwordFile": str(file)}
    else:
        server.bearer = PASSWORD
        credentials = {**trust, "tokenFile": str(file)}
    remote = follow(server.url(), credentials=credentials)
    remote.reads(upstream.source.head())

    before = len(server.requests)
    server.basic, server.bearer = (("ada", OTHER), None) if way == "basic" else (None, OTHER)
    pushed = upstream.push()
    remote.fails("unauthorized", f"{server.url()} refuses the credentials in {file} (`credentials.")
    seen = len(server.requests)
    until(lambda: len(server.requests) > seen or None, "one more look")
    times = [request.at for request in server.requests[before:]]
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) > STORM_SECONDS
    assert (remote.versions(), remote.shown()["state"]) == (BOTH, "unauthorized")

    secret_file(file, f"{OTHER}\n")
    remote.reads(pushed)


@pytest.mark.parametrize("content", [None, b"", b"\n", b"canary-one\ncanary-two\n", b"canary-\x00nul", b"x" * 100_000])
@pytest.mark.parametrize("key", ["passwordFile", "tokenFile"])
def test_a_file_that_holds_no_secret_is_named_before_anything_is_asked_and_read_once_it_does(
    *,
    server: Server,
    trust: dict[str, str],
    upstream: Upstream,
    follow: Follow,
    tmp_path: Path,
    content: bytes | None,
    key: str,
) -> None:
    server.basic = ("ada", PASSWORD)
    file = tmp_path / "secret"
    if content is not None:
        secret_file(file, content)
    remote = follow(server.url(), credentials={**trust, "username": "ada", key: str(file)})
    remote.fails("unauthorized", str(file))
    assert server.requests == []
    secret_file(file, PASSWORD)
    remote.reads(upstream.source.head())


def test_a_folder_in_place_of_a_password_is_named(
    server: Server, trust: dict[str, str], follow: Follow, tmp_path: Path
) -> None:
    (tmp_path / "secret").mkdir()
    remote = follow(server.url(), credentials={**trust, "username": "ada", "passwordFile": str(tmp_path / "secret")})
    remote.fails("unauthorized", str(tmp_path / "secret"))
    assert server.requests == []


def test_what_a_server_says_is_shown_without_the_secret_that_it_repeats(
    server: Server, trust: dict[str, str], follow: Follow, tmp_path: Path
) -> None:
    file = secret_file(tmp_path / "secret", PASSWORD)
    server.basic = ("ada", PASSWORD)
    said = f"You sent {PASSWORD}\x1b[31m, and YWRhOmNhbmFyeS1wYXNzd29yZA== too\nremote: fatal: {PASSWORD}\n"
    server.refusal = Refusal(403, {"Content-Type": "text/plain"}, said.encode())
    remote = follow(server.url(), credentials={**trust, "username": "ada", "passwordFile": str(file)})
    remote.fails("unauthorized")  # and the search after each test finds the secret nowhere


def test_a_secret_in_a_url_is_refused_and_not_repeated(daemon: Daemon, server: Server) -> None:
    for url in (
        f"https://ada:{PASSWORD}@127.0.0.1:{server.port}/telemetry.git",
        f"HttP://ada:{PASSWORD}@127.0.0.1:{server.port}/telemetry.git",
        f"https://{PASSWORD}@127.0.0.1:{server.port}/telemetry.git",
    ):
        daemon.configure([{"name": "in-url", "url": url}])
        told = daemon.reload()
        assert told.startswith("The settings were not reloaded")
        assert PASSWORD not in told
    assert server.requests == []
    daemon.configure([])
    assert canaries.leaks(daemon.log.read_bytes()) == []


@pytest.mark.parametrize("url", ["http://git.example/telemetry.git", "git://git.example/telemetry.git"])
def test_what_nothing_protects_is_refused_beyond_this_machine_and_credentials_over_it_anywhere(
    daemon: Daemon, tmp_path: Path, url: str
) -> None:
    file = str(secret_file(tmp_path / "secret", PASSWORD))
    daemon.configure([{"name": "plain", "url": url}])
    assert "beyond this machine" in daemon.reload()
    here = url.replace("git.example", "127.0.0.1")
    daemon.configure([{"name": "plain", "url": here, "credentials": {"username": "ada", "passwordFile": file}}])
    assert "is for https URLs" in daemon.reload()
    daemon.follow_nothing()


def test_credentials_from_another_file_make_no_other_history_of_an_amended_commit(
    *, server: Server, trust: dict[str, str], upstream: Upstream, follow: Follow, daemon: Daemon, tmp_path: Path
) -> None:
    server.basic = ("ada", PASSWORD)
    first = upstream.source.head()
    applied = upstream.push("c")
    files = [str(secret_file(tmp_path / name, f"{PASSWORD}\n")) for name in ("one", "two")]
    former, present = ({**trust, "username": "ada", "passwordFile": file} for file in files)
    remote = follow(server.url(), credentials=former)
    remote.reads(applied)
    [mirror] = mirrors(daemon)
    remote.follow(credentials=present)
    until(lambda: mirror not in mirrors(daemon), "the former mirror is removed")
    until(lambda: [pack for one in mirrors(daemon) for pack in one.glob("objects/pack/*.pack")], "the other is filled")
    upstream.source.rewind(first)
    upstream.source.write("c.yaml", destination("c", "amended"))
    commit = upstream.source.commit()
    upstream.source.push()
    remote.reads(commit)
    assert remote.versions() == {**BOTH, "c": 2}


# Trusting


def test_a_server_is_trusted_by_its_own_authority_alone_and_the_file_is_read_again_for_each_look(
    server: Server, authority: Authority, upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    remote = follow(server.url())
    remote.fails("unreachable", "certificate", "caFile")  # the machine's authorities did not sign it
    file = secret_file(tmp_path / "trusted.pem", Authority.make(tmp_path / "stranger").bundle.read_bytes())
    remote.follow(credentials={"caFile": str(file)})
    remote.fails("unreachable", "certificate", f"CAfile: {file}")
    assert server.requests == []
    secret_file(file, authority.bundle.read_bytes())
    remote.reads(upstream.source.head())


@pytest.mark.parametrize("content", [None, b"", b"no certificate at all\n", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_file_without_an_authority_is_named_and_nothing_is_asked(
    *, server: Server, authority: Authority, upstream: Upstream, follow: Follow, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "trusted.pem"
    if content is not None:
        secret_file(file, content)
    with chaos.before(server.port) as proxy:
        remote = follow(server.url(port=proxy.port), credentials={"caFile": str(file)})
        remote.fails(*(("unauthorized", str(file)) if content is None else ("unreachable", "`credentials.caFile`")))
        assert server.requests == []
        secret_file(file, authority.bundle.read_bytes())
        remote.reads(upstream.source.head())


def test_a_certificate_of_another_host_is_not_trusted(
    authority: Authority, upstream: Upstream, follow: Follow, trust: dict[str, str]
) -> None:
    other = authority.issue("DNS:git.example", name="other")
    with https.serving(upstream.served, certificate=other) as server:
        follow(server.url(), credentials=trust).fails("unreachable", "certificate")
        assert server.requests == []


def test_a_server_that_changes_its_authority_is_followed_again_once_that_is_trusted(
    authority: Authority, upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    file = secret_file(tmp_path / "trusted.pem", authority.bundle.read_bytes())
    renewed = Authority.make(tmp_path / "renewed")
    with https.serving(upstream.served, certificate=authority.issue()) as server, chaos.before(server.port) as proxy:
        remote = follow(server.url(port=proxy.port), credentials={"caFile": str(file)})
        remote.reads(upstream.source.head())
        pushed = upstream.push()
        with https.serving(upstream.served, certificate=renewed.issue()) as later:
            proxy.target = later.port
            remote.fails("unreachable", "certificate")
            assert BOTH.items() <= remote.versions().items()
            secret_file(file, renewed.bundle.read_bytes())
            remote.reads(pushed)


# What a server may answer instead


@pytest.mark.parametrize(
    ("refusal", "state", "words"),
    [
        (Refusal(401, {"WWW-Authenticate": 'Basic realm="git"'}), "unauthorized", ()),
        (Refusal(401), "unauthorized", ()),
        (Refusal(403), "unauthorized", ("asks for credentials",)),
        (Refusal(404), "unreachable", ("no repository",)),
        (Refusal(410), "unreachable", ("no repository",)),
        (Refusal(429), "unreachable", ("HTTP 429",)),
        (Refusal(500), "unreachable", ("500",)),
        (Refusal(502), "unreachable", ("502",)),
        (Refusal(503), "unreachable", ("503",)),
        (Refusal(200, {"Content-Type": "text/html"}, b"<html>Sign in</html>"), "unreachable", ()),
        (Refusal(200, {"Content-Type": "application/x-git-upload-pack-advertisement"}, b"0000"), "unreachable", ()),
        (Refusal(200, {"Content-Type": "application/x-git-upload-pack-advertisement"}, b"\xff" * 9), "unreachable", ()),
    ],
)
def test_whatever_is_answered_instead_what_was_last_good_stays_and_recovery_needs_nobody(
    *,
    server: Server,
    trust: dict[str, str],
    upstream: Upstream,
    follow: Follow,
    refusal: Refusal,
    state: str,
    words: tuple[str, ...],
) -> None:
    remote = follow(server.url(), credentials=trust)
    first = upstream.source.head()
    remote.reads(first)
    pushed = upstream.push()
    server.refusal = refusal
    remote.fails(state, server.url(), *words)
    assert (remote.versions(), remote.shown()["commit"] in {first, pushed}) == (remote.versions(), True)
    assert BOTH.items() <= remote.versions().items()
    server.refusal = None
    remote.reads(pushed)
    assert remote.versions() == {**BOTH, "c": 1}


def test_a_repository_that_was_never_there_says_so_and_is_read_once_it_is(
    server: Server, trust: dict[str, str], upstream: Upstream, follow: Follow
) -> None:
    remote = follow(server.url("later.git"), credentials=trust)
    remote.fails("unreachable", "no repository", "later.git")
    assert remote.versions() == {}
    upstream.bare.path.rename(upstream.served / "later.git")
    remote.reads(upstream.source.head())


def test_an_empty_repository_is_empty_and_its_first_commit_is_read(
    server: Server, trust: dict[str, str], upstream: Upstream, follow: Follow
) -> None:
    Repository.init(upstream.served / "new.git", bare=True)
    remote = follow(server.url("new.git"), credentials=trust)
    remote.fails("empty")
    upstream.source.git("push", "--quiet", str(upstream.served / "new.git"), "main:main")
    remote.reads(upstream.source.head())


@pytest.mark.parametrize("form", ["seconds", "date", "during-fetch"])
def test_a_server_that_says_when_is_not_asked_before(
    server: Server, trust: dict[str, str], upstream: Upstream, follow: Follow, form: str
) -> None:
    remote = follow(server.url(), credentials=trust)
    remote.reads(upstream.source.head())
    pushed = upstream.push()
    # A date has whole seconds only.
    until_date = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=7)
    refusal = https.too_many(until=until_date) if form == "date" else https.too_many(seconds=6, status=503)
    before = len(server.requests)
    server.refusal = Refusal(refusal.status, refusal.headers, only="git-upload-pack" if form == "during-fetch" else "")
    remote.fails("unreachable", "HTTP 429" if form == "date" else "HTTP 503")
    server.refusal = None
    remote.reads(pushed)
    times = [request.at for request in server.requests[before:]]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert max(gaps) >= (4.5 if form == "date" else 5.9)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_told_and_not_followed(
    *,
    authority: Authority,
    server: Server,
    trust: dict[str, str],
    upstream: Upstream,
    follow: Follow,
    tmp_path: Path,
    status: int,
) -> None:
    file = secret_file(tmp_path / "secret", PASSWORD)
    with https.serving(upstream.served, certificate=authority.issue(name="elsewhere")) as elsewhere:
        server.refusal = https.redirect(elsewhere.url() + "/info/refs?service=git-upload-pack", status=status)
        credentials = {**trust, "username": "ada", "passwordFile": str(file)}
        remote = follow(server.url(), credentials=credentials)
        remote.fails("unreachable", "redirect", "url")
        assert elsewhere.requests == []
        server.refusal = None
        remote.reads(upstream.source.head())


# What is asked


def test_a_look_that_finds_nothing_new_asks_what_there_is_and_nothing_else(
    server: Server, trust: dict[str, str], upstream: Upstream, follow: Follow
) -> None:
    remote = follow(server.url(), credentials=trust, interval="1h")
    remote.reads(upstream.source.head())
    before = len(server.requests)
    remote.looks()
    assert [(one.method, one.command) for one in server.requests[before:]] == [("GET", ""), ("POST", "ls-refs")]
    fetched = server.fetches()
    remote.follow(branch=None, ref="refs/heads/main")  # the same head under another name
    remote.looks()
    remote.reads(upstream.source.head())
    assert server.fetches() == fetched


def test_entries_with_the_same_url_and_credentials_are_fetched_once(
    daemon: Daemon, server: Server, trust: dict[str, str], upstream: Upstream, follow: Follow
) -> None:
    before = set(mirrors(daemon))
    one = follow(server.url(), credentials=trust, interval="1h")
    others = [follow(server.url(), credentials=trust, interval="1h") for _ in range(4)]
    for remote in (one, *others):
        remote.reads(upstream.source.head())
    assert (server.fetches(), len(set(mirrors(daemon)) - before)) == (1, 1)
    pushed = upstream.push()
    asked = [daemon.post(f"/v1/repositories/{remote.name}/reconcile").body["run"] for remote in (one, *others)]
    assert {daemon.finished(run)["commit"] for run in asked} == {pushed}
    assert server.fetches() == 2


# Between us and the server


def test_a_proxy_is_asked_for_the_server_and_never_shown_a_secret(
    server: Server, trust: dict[str, str], upstream: Upstream, follow: Follow, tmp_path: Path
) -> None:
    file = secret_file(tmp_path / "secret", PASSWORD)
    server.basic = ("ada", PASSWORD)
    credentials = {**trust, "username": "ada", "passwordFile": str(file)}
    with forward.proxying() as proxy:
        remote = follow(server.url(), credentials={**credentials, "proxy": proxy.url})
        remote.reads(upstream.source.head())
        assert set(proxy.targets) == {f"127.0.0.1:{server.port}"}
        pushed = upstream.push()
        for status, words in ((407, "response 407"), (502, "response 502"), (403, "response 403")):
            proxy.status = status
            remote.looks()
            remote.fails("unreachable", "CONNECT tunnel failed", words)
            assert BOTH.items() <= remote.versions().items()
        proxy.status = None
        remote.looks()
        remote.reads(pushed)
        assert {name for asked in proxy.asked for name in asked.headers} & {"authorization", "proxy-authorization"} == (
            set()
        )
        assert PASSWORD not in repr(proxy.asked)
    remote.looks()
    remote.fails("unreachable", f"port {proxy.port}")  # it is gone


def test_a_proxy_in_the_environment_of_the_daemon_is_not_asked(
    server: Server, trust: dict[str, str], tmp_path: Path
) -> None:
    with forward.proxying() as proxy:
        variables = dict.fromkeys(("https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"), proxy.url)
        entry = {"name": "env", "url": server.url(), "branch": "main", "credentials": trust}
        other = Daemon(tmp_path / "other", repositories=[entry], environment=variables)
        try:
            other.start()
            until(lambda: other.repository("env")["state"] == "ready" or None, "it is read")
        finally:
            other.stop()
        assert proxy.asked == []


def test_a_host_may_be_named_instead_of_its_address(
    server: Server, trust: dict[str, str], upstream: Upstream, follow: Follow
) -> None:
    remote = follow(server.url(host="localhost"), credentials=trust)
    remote.reads(upstream.source.head())


def test_http_on_this_machine_is_followed_without_credentials(upstream: Upstream, follow: Follow) -> None:
    with https.serving(upstream.served) as server:
        remote = follow(server.url())
        remote.reads(upstream.source.head())
        server.basic = ("ada", PASSWORD)
        remote.fails("unauthorized")
        server.basic = None
        remote.reads(upstream.push())
