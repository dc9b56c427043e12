"""HTTPS as git speaks it for us: whom it trusts, what it shows to whom, and what it is told."""

import base64
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes import https as ours
from reconciler.git.remotes.credentials import Credentials
from reconciler.git.remotes.errors import explain
from reconciler.git.remotes.https import Https
from reconciler.git.remotes.program import GitProgram, Limits, Output
from reconciler.git.remotes.sources import Source
from tests.canaries import MARKER, leaks
from tests.servers import forward, https
from tests.servers.certificates import Authority

pytestmark = pytest.mark.anyio
LIMITS = Limits(seconds=20)
NAME = "telemetry.git"
PASSWORD = "canary-p@ss/w:rd é %41"
TOKEN = 'canary-t"ok\\en#;'
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ODD_NAME = "a da@work/é+%"


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


async def settings(program: GitProgram) -> list[str]:
    listed = await program.run("config", "--list", limits=LIMITS)
    return listed.stdout.decode().splitlines()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


async def test_trusts_its_authorities_alone_and_nobody_whom_a_redirect_names(tmp_path: Path) -> None:
    bundle = tmp_path / 'a "b" #c.pem'
    credentials = Credentials(ca_file=bundle, proxy="http://proxy.example:3128", username="ada")
    program = GitProgram(tmp_path / "home", url="https://git.example:8443/x", credentials=credentials)
    found = await settings(program)
    assert {
        "http.followredirects=false",
        "http.sslversion=tlsv1.2",
        f"http.sslcainfo={bundle}",
        f"http.sslcapath={tmp_path}/home/no-authorities",
        "http.proxy=http://proxy.example:3128",
    } <= set(found)
    assert list((tmp_path / "home/no-authorities").iterdir()) == []


async def test_trusts_the_systems_authorities_when_it_is_given_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = written(tmp_path, "bundle", "")
    monkeypatch.setattr(ours, "SYSTEM_BUNDLE", bundle)
    found = await settings(GitProgram(tmp_path / "one", url="https://git.example/x"))
    assert {f"http.sslcainfo={bundle}", f"http.sslcapath={tmp_path}/one/no-authorities"} <= set(found)
    monkeypatch.setattr(ours, "SYSTEM_BUNDLE", tmp_path / "none")
    found = await settings(GitProgram(tmp_path / "two", url="https://git.example/x"))
    assert not [line for line in found if line.startswith(("http.sslca", "http.proxy"))]


async def test_says_that_the_file_of_authorities_cannot_be_read(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    transport = Https("https://git.example/x", Credentials(ca_file=bundle), home=tmp_path)
    with pytest.raises(GitFault) as caught:
        async with transport.access():
            pytest.fail("it was taken for a list of authorities")
    assert caught.value.state is RepositoryState.UNAUTHORIZED
    said = "does not exist; mend that, or correct credentials.caFile"
    assert caught.value.message == f"{bundle}, the file of credentials.caFile, {said}"


async def test_gives_a_run_no_secret_but_in_memory(tmp_path: Path) -> None:
    tokens = written(tmp_path, "token", TOKEN)
    basic = Credentials(username="ada", password_file=tokens)
    for credentials in (basic, Credentials(token_file=tokens), Credentials(username="ada", token_file=tokens)):
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        transport = Https("https://git.example/x", credentials, home=home)
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - as many as are open
        async with transport.access() as access:
            assert MARKER not in str(access.environment)
            header = os.pread(access.descriptors[0], 1000, 0)
            assert credentials.username or MARKER.encode() in header
            assert not credentials.username or base64.b64encode(f"ada:{TOKEN}".encode()) in header
            assert TOKEN.encode() in access.secrets
        assert MARKER not in transport.install()
        assert [leaks(file.read_bytes()) for file in home.iterdir() if file.is_file()] in ([], [[]])
        assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@contextlib.contextmanager
def serving(served: Path, authority: Authority, *, bearer: str | None = None) -> Iterator[https.Server]:
    basic = None if bearer is not None else ("ada", PASSWORD)
    with https.serving(served, certificate=authority.issue(), basic=basic, bearer=bearer) as server:
        yield server


async def listed(home: Path, server: https.Server, credentials: Credentials, *arguments: str) -> Output:
    program = GitProgram(home, url=server.url(), credentials=credentials, now=lambda: NOW)
    return await program.run(*(arguments or ("ls-remote", "--", server.url())), limits=LIMITS, remote=True)


@pytest.fixture
def basic(tmp_path: Path, authority: Authority) -> Credentials:
    password = written(tmp_path, "password", f"{PASSWORD}\n")
    return Credentials(username="ada", password_file=password, ca_file=authority.bundle)


@pytest.mark.slow
@pytest.mark.parametrize("username", ["ada", ODD_NAME])
async def test_signs_in_with_a_password_that_changes_while_it_runs(
    served: Path, tmp_path: Path, authority: Authority, username: str
) -> None:
    password = written(tmp_path, "password", PASSWORD)
    credentials = Credentials(username=username, password_file=password, ca_file=authority.bundle)
    with serving(served, authority) as server:
        server.basic = (username, PASSWORD)
        program = GitProgram(tmp_path / "home", url=server.url(), credentials=credentials)
        ask = ("ls-remote", "--", server.url())
        output = await program.run(*ask, limits=LIMITS, remote=True)
        assert (output.status, output.stderr) == (0, "")
        server.basic = (username, "canary-new")
        refused = await program.run(*ask, limits=LIMITS, remote=True)
        assert (refused.status, "could not read Username" in refused.stderr) == (128, True)
        password.write_text("canary-new\n")
        assert (await program.run(*ask, limits=LIMITS, remote=True)).status == 0


@pytest.mark.slow
async def test_shows_a_bearer_token_from_the_first_request_on(
    served: Path, tmp_path: Path, authority: Authority
) -> None:
    credentials = Credentials(token_file=written(tmp_path, "token", TOKEN), ca_file=authority.bundle)
    with serving(served, authority, bearer=TOKEN) as server:
        output = await listed(tmp_path / "home", server, credentials)
        assert (output.status, output.stderr) == (0, "")
        assert set(server.authorizations()) == {f"Bearer {TOKEN}"}
        server.bearer = "canary-other"
        refused = await listed(tmp_path / "home", server, credentials)
        told = explain(Source(url=server.url(), credentials=credentials), refused).message
        assert (refused.status, leaks(told.encode())) == (128, [])


@pytest.mark.slow
async def test_trusts_no_other_authority(
    served: Path, tmp_path: Path, authority: Authority, basic: Credentials
) -> None:
    other = Authority.make(tmp_path / "other")
    with serving(served, authority) as server:
        for bundle in (other.bundle, None):
            untrusting = Credentials(username="ada", password_file=basic.password_file, ca_file=bundle)
            output = await listed(tmp_path / "home", server, untrusting)
            assert (output.status, "certificate verification failed" in output.stderr) == (128, True)
        assert server.requests == []


@pytest.mark.slow
@pytest.mark.parametrize("status", [None, 407, 403])
async def test_a_proxy_never_gets_the_repositorys_password(
    served: Path, tmp_path: Path, authority: Authority, basic: Credentials, status: int | None
) -> None:
    token = written(tmp_path, "token", TOKEN)
    for number, shown in enumerate((basic, Credentials(token_file=token, ca_file=authority.bundle))):
        with serving(served, authority, bearer=TOKEN if number else None) as server, forward.proxying() as proxy:
            proxy.status = status
            through = Credentials(
                **{name: getattr(shown, name) for name in ("username", "password_file", "token_file", "ca_file")},
                proxy=proxy.url,
            )
            output = await listed(tmp_path / f"home{number}", server, through)
            assert output.status == (0 if status is None else 128)
            assert proxy.targets == [f"127.0.0.1:{server.port}"]
            told = [asked.headers for asked in proxy.asked]
            assert not [headers for headers in told if {"authorization", "proxy-authorization"} & headers.keys()]


@pytest.mark.slow
async def test_uses_no_proxy_of_the_environment(
    served: Path, tmp_path: Path, authority: Authority, basic: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with serving(served, authority) as server:
        assert (await listed(tmp_path / "home", server, basic)).status == 0


@pytest.mark.slow
async def test_says_when_to_come_back_and_where_a_redirect_leads(
    served: Path, tmp_path: Path, authority: Authority, basic: Credentials
) -> None:
    with serving(served, authority) as server:
        server.refusal = https.too_many(seconds=17)
        assert (await listed(tmp_path / "home", server, basic)).retry_after == 17
        server.refusal = https.too_many(until=NOW.replace(minute=2), status=503)
        assert (await listed(tmp_path / "home", server, basic)).retry_after == 120
        server.refusal = https.too_many()
        assert (await listed(tmp_path / "home", server, basic)).retry_after is None
        server.refusal = https.redirect(
            "https://eve:canary-a@other.example/moved.git/info/refs?service=x&token=canary-b"
        )
        output = await listed(tmp_path / "home", server, basic)
        assert output.notes == ("redirected to https://other.example/moved.git",)
        assert {request.path for request in server.requests} == {f"/{NAME}/info/refs"}


@pytest.mark.slow
async def test_takes_a_page_for_no_repository(
    served: Path, tmp_path: Path, authority: Authority, basic: Credentials
) -> None:
    with serving(served, authority) as server:
        server.refusal = https.Refusal(200, {"Content-Type": "text/html"}, b"<html>sign in</html>")
        output = await listed(tmp_path / "home", server, basic)
    assert (output.status, output.stdout) == (128, b"")
    assert output.notes == ("the remote does not speak Git's smart protocol",)


@pytest.mark.slow
async def test_hides_a_secret_that_the_server_sends_back(
    served: Path, tmp_path: Path, authority: Authority, basic: Credentials
) -> None:
    header = base64.b64encode(f"ada:{PASSWORD}".encode()).decode()
    body = f"no, {PASSWORD}!\nyou sent Basic {header}\n".encode()
    with serving(served, authority) as server:
        server.refusal = https.Refusal(403, {"Content-Type": "text/plain"}, body)
        output = await listed(tmp_path / "home", server, basic)
    message = explain(Source(url=server.url(), credentials=basic), output).message
    assert " (it says: no, (sensitive)! you sent Basic (sensitive))" in message
    assert leaks(message.encode()) == []


@pytest.fixture
async def fetching(served: Path, tmp_path: Path, authority: Authority) -> AsyncIterator[tuple[GitProgram, list[str]]]:
    with https.serving(served, certificate=authority.issue()) as server:
        program = GitProgram(tmp_path / "home", url=server.url(), credentials=Credentials(ca_file=authority.bundle))
        mirror = tmp_path / "mirror.git"
        await program.run("init", "--quiet", "--bare", "--", str(mirror), limits=LIMITS)
        command = [f"--git-dir={mirror}", "fetch", "--progress", "--", server.url(), "+HEAD:refs/reconciler/head"]
        yield program, command


@pytest.mark.slow
async def test_ends_a_fetch_of_more_objects_than_it_may_bring(fetching: tuple[GitProgram, list[str]]) -> None:
    program, command = fetching
    output = await program.run(*command, limits=Limits(seconds=20, objects=2), remote=True)
    assert output.status != 0
    assert output.notes == ("it sends too many objects",)
    output = await program.run(*command, limits=Limits(seconds=20, objects=3), remote=True)
    assert output.status == 0
