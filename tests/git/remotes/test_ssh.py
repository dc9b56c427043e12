"""The ssh that git runs."""

import base64
import contextlib
import shlex
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes.credentials import Credentials
from reconciler.git.remotes.program import GitProgram, Limits, Output
from reconciler.git.remotes.ssh import Ssh, ssh_command
from tests import needs
from tests.servers import ssh

pytestmark = pytest.mark.anyio
LIMITS = Limits(seconds=20)
NOBODY_KNOWS = "-----BEGIN {}PRIVATE KEY-----\n{}\n-----END {}PRIVATE KEY-----\n"
MAGIC = b"openssh-key-v1\0"


def effective(credentials: Credentials, *, agent: str | None = None) -> dict[str, str]:
    """What ssh itself says it will do, by the names of its options."""
    needs.require("ssh")
    words = [*shlex.split(ssh_command(credentials, agent=agent)), "-G", "ada@git.example"]
    told = subprocess.run(words, capture_output=True, text=True, timeout=10, check=True).stdout
    return {name: value for name, _, value in (line.partition(" ") for line in told.splitlines())}


def test_does_what_the_settings_say_and_nothing_else(tmp_path: Path) -> None:
    key, hosts = tmp_path / "a key #1 'x' 100%h", tmp_path / "known hosts %d ~"
    found = effective(Credentials(ssh_key_file=key, known_hosts_file=hosts))
    expected = {
        "batchmode": "yes",
        "stricthostkeychecking": "true",
        "userknownhostsfile": str(hosts),
        "globalknownhostsfile": "/dev/null",
        "identityfile": str(key).replace("%", "%%"),  # it is replaced when the file is opened
        "identitiesonly": "yes",
        "identityagent": "none",
        "preferredauthentications": "publickey",
        "addkeystoagent": "false",
        "forwardagent": "no",
        "forwardx11": "no",
        "clearallforwardings": "yes",
        "tunnel": "false",
        "permitlocalcommand": "no",
        "controlmaster": "false",
        "updatehostkeys": "false",
        "verifyhostkeydns": "false",
        "canonicalizehostname": "false",
        "requesttty": "false",
        "connecttimeout": "30",
        "serveraliveinterval": "15",
        "user": "ada",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert not {"proxycommand", "proxyjump", "controlpath", "localforward", "sendenv"} & found.keys()
    assert "sntrup761" not in found["kexalgorithms"]
    assert "curve25519" in found["kexalgorithms"]


def test_uses_the_agents_key_alone(tmp_path: Path) -> None:
    found = effective(Credentials(ssh_key_file=tmp_path / "key"), agent="agent")
    assert (found["identityagent"], found["identityfile"], found["batchmode"]) == ("agent", "none", "yes")


async def refusal(credentials: Credentials, home: Path) -> str:
    """What is said before ssh is started."""
    with pytest.raises(GitFault) as caught:
        async with Ssh(credentials, home=home).access():
            pytest.fail("the files were found to be of use")
    assert (caught.value.state, caught.value.transient) == (RepositoryState.UNAUTHORIZED, False)
    return caught.value.message


@pytest.mark.parametrize("content", ["", "\n# nobody\n  # yet\n"])
async def test_refuses_hosts_that_are_none(tmp_path: Path, content: str) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(content)
    assert await refusal(Credentials(known_hosts_file=hosts), tmp_path) == (
        f"{hosts}, the file of credentials.knownHostsFile, names no host; write the server's line of `ssh-keyscan` into"
        " it, once you know that the key is the server's"
    )
    assert "does not exist" in await refusal(Credentials(known_hosts_file=tmp_path / "none"), tmp_path)


def key(kind: str, content: bytes) -> str:
    return NOBODY_KNOWS.format(kind, base64.b64encode(content).decode(), kind)


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("ssh-ed25519 AAAA ada", 0o600, "holds no private key; put one there, or correct credentials.sshKeyFile"),
        ("", 0o600, "holds no private key; put one there, or correct credentials.sshKeyFile"),
        (key("RSA ", b""), 0o640, "may be read by others, so ssh does not use it; make its mode 0600"),
        *(
            (
                text,
                0o600,
                "holds a key that has a passphrase; name the file of the passphrase in credentials.sshPassphraseFile",
            )
            for text in (
                key("OPENSSH ", MAGIC + b"\0\0\0\x0aaes256-ctr"),
                key("ENCRYPTED ", b"x"),
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n",
            )
        ),
    ],
)
async def test_refuses_a_key_that_ssh_could_not_use(tmp_path: Path, content: str, mode: int, said: str) -> None:
    file = tmp_path / "key"
    file.write_text(content)
    file.chmod(mode)
    message = await refusal(Credentials(ssh_key_file=file), tmp_path)
    assert message == f"{file}, the file of credentials.sshKeyFile, {said}"


@pytest.mark.parametrize("content", [key("OPENSSH ", MAGIC + b"\0\0\0\4none"), key("RSA ", b"x"), key("", b"x")])
async def test_takes_a_key_without_passphrase(tmp_path: Path, content: str) -> None:
    file = tmp_path / "key"
    file.write_text(content)
    file.chmod(0o600)
    async with Ssh(Credentials(ssh_key_file=file), home=tmp_path).access() as access:
        assert access.environment == {
            "GIT_SSH_COMMAND": ssh_command(Credentials(ssh_key_file=file), agent=None),
            "GIT_SSH_VARIANT": "ssh",
        }


@contextlib.asynccontextmanager
async def program(home: Path, url: str, credentials: Credentials) -> AsyncIterator[GitProgram]:
    made = GitProgram(home, url=url, credentials=credentials)
    try:
        yield made
    finally:
        await made.close()


async def listed(program: GitProgram, url: str) -> Output:
    return await program.run("ls-remote", "--", url, limits=LIMITS, remote=True)


@pytest.mark.slow
async def test_reads_with_a_key_whose_files_have_odd_names(served: Path, tmp_path: Path) -> None:
    made = ssh.make_key(tmp_path / "a key #1 'x' 100%h")
    with ssh.serving(tmp_path / "sshd", authorized=[made]) as server:
        hosts = server.known_hosts(tmp_path / "known hosts %d ~", hashed=True)
        url = server.url(served / "telemetry.git")
        credentials = Credentials(ssh_key_file=made.private, known_hosts_file=hosts)
        async with program(tmp_path / "home", url, credentials) as git:
            output = await listed(git, url)
            assert (output.status, output.stderr) == (0, "")
            assert output.stdout.endswith(b"\trefs/heads/main\n")
            assert [path.name for path in (tmp_path / "home").iterdir()] == ["gitconfig"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ssh.KINDS)
async def test_takes_every_type_of_key_with_a_passphrase(served: Path, tmp_path: Path, kind: str) -> None:
    made = ssh.make_key(tmp_path / "key", kind, passphrase="canary-passphrase")
    (tmp_path / "passphrase").write_text("canary-passphrase\n")
    with ssh.serving(tmp_path / "sshd", authorized=[made]) as server:
        credentials = Credentials(
            ssh_key_file=made.private,
            ssh_passphrase_file=tmp_path / "passphrase",
            known_hosts_file=server.known_hosts(tmp_path / "hosts"),
        )
        url = server.url(served / "telemetry.git")
        async with program(tmp_path / "home", url, credentials) as git:
            mirror = f"--git-dir={tmp_path / 'mirror.git'}"
            await git.run("init", "--quiet", "--bare", "--", str(tmp_path / "mirror.git"), limits=LIMITS)
            fetched = await git.run(mirror, "fetch", "--", url, "+HEAD:refs/head", limits=LIMITS, remote=True)
            assert (fetched.status, " -> refs/head\n" in fetched.stderr) == (0, True)
            server.authorize()
            refused = await listed(git, url)
            assert (refused.status, "Permission denied" in refused.stderr) == (128, True)
