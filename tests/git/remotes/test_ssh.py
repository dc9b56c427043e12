"""The ssh that git runs."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes import errors
from reconciler.git.remotes.credentials import Credentials
from reconciler.git.remotes.program import GitProgram, Limits, Output
from reconciler.git.remotes.sources import Source
from reconciler.git.remotes.ssh import Ssh, ssh_command
from tests import needs
from tests.canaries import leaks
from tests.servers import ssh

pytestmark = pytest.mark.anyio
LIMITS = Limits(seconds=20)
PASSPHRASE = "canary-passphrase"


def effective(credentials: Credentials) -> dict[str, str]:
    """Return the options that ssh itself reports, by name."""
    needs.require("ssh")
    words = [*shlex.split(ssh_command(credentials)), "-G", "ada@git.example"]
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
        "identityfile": "identity",
        "certificatefile": f"{key}-cert.pub".replace("%", "%%"),  # it is replaced when the file is opened
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
        "requesttty": "auto",  # none for a command whose input is no terminal
        "connecttimeout": "30",
        "serveraliveinterval": "15",
        "user": "ada",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert not {"proxycommand", "proxyjump", "controlpath", "localforward", "sendenv"} & found.keys()
    assert "sntrup761" not in found["kexalgorithms"]
    assert "curve25519" in found["kexalgorithms"]


def test_asks_for_a_passphrase_once_and_for_nothing_else(tmp_path: Path) -> None:
    found = effective(Credentials(ssh_key_file=tmp_path / "key", ssh_passphrase_file=tmp_path / "passphrase"))
    expected = {
        "batchmode": "no",
        "numberofpasswordprompts": "1",
        "stricthostkeychecking": "true",
        "preferredauthentications": "publickey",
    }
    assert {name: found[name] for name in expected} == expected


async def refusal(credentials: Credentials, home: Path) -> str:
    """Return the error that is raised before ssh starts."""
    with pytest.raises(GitFault) as caught:
        async with Ssh(credentials, home=home).access():
            pytest.fail("the files were found to be of use")
    assert (caught.value.state, caught.value.transient) == (RepositoryState.UNAUTHORIZED, False)
    return caught.value.message


async def test_refuses_files_that_are_not_there(tmp_path: Path) -> None:
    for given in (
        Credentials(known_hosts_file=tmp_path / "none"),
        Credentials(ssh_key_file=tmp_path / "none"),
        Credentials(ssh_passphrase_file=tmp_path / "none"),
    ):
        assert f"{tmp_path}/none, the file of credentials.ssh" in (await refusal(given, tmp_path)).replace(
            "knownHosts", "sshKnownHosts"
        )


async def test_takes_a_key_without_passphrase(tmp_path: Path) -> None:
    file = ssh.make_key(tmp_path / "key").private
    async with Ssh(Credentials(ssh_key_file=file), home=tmp_path).access() as access:
        assert access.environment == {
            "GIT_SSH_COMMAND": ssh_command(Credentials(ssh_key_file=file)),
            "GIT_SSH_VARIANT": "ssh",
        }


async def listed(program: GitProgram, url: str) -> Output:
    return await program.run("ls-remote", "--", url, limits=LIMITS, remote=True)


@pytest.mark.slow
async def test_reads_with_a_key_whose_files_have_odd_names(served: Path, tmp_path: Path) -> None:
    made = ssh.make_key(tmp_path / "a key #1 'x' 100%h")
    with ssh.serving(tmp_path / "sshd", authorized=[made]) as server:
        hosts = server.known_hosts(tmp_path / "known hosts %d ~", hashed=True)
        url = server.url(served / "telemetry.git")
        credentials = Credentials(ssh_key_file=made.private, known_hosts_file=hosts)
        git = GitProgram(tmp_path / "home", url=url, credentials=credentials)
        output = await listed(git, url)
        assert (output.status, output.stderr) == (0, "")
        assert output.stdout.endswith(b"\trefs/heads/main\n")
        assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["askpass", "gitconfig", "identity"]


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
        git = GitProgram(tmp_path / "home", url=url, credentials=credentials)
        mirror = f"--git-dir={tmp_path / 'mirror.git'}"
        await git.run("init", "--quiet", "--bare", "--", str(tmp_path / "mirror.git"), limits=LIMITS)
        fetched = await git.run(mirror, "fetch", "--", url, "+HEAD:refs/head", limits=LIMITS, remote=True)
        assert (fetched.status, " -> refs/head\n" in fetched.stderr) == (0, True)
        server.authorize()
        refused = await listed(git, url)
        assert (refused.status, "Permission denied" in refused.stderr) == (128, True)


# Keys with a passphrase


def locked(folder: Path, passphrase: str = PASSPHRASE) -> Credentials:
    """A key with a passphrase, and a file with this one."""
    made = ssh.make_key(folder / "key", passphrase=PASSPHRASE)
    (folder / "passphrase").write_text(f"{passphrase}\n")
    return Credentials(ssh_key_file=made.private, ssh_passphrase_file=folder / "passphrase")


def transport(credentials: Credentials, home: Path) -> Ssh:
    made = Ssh(credentials, home=home)
    home.mkdir(exist_ok=True)
    made.install()
    return made


@pytest.mark.slow
@pytest.mark.parametrize("written", ["canary-passphrase", "canary-passphrase\n", "canary-passphrase\r\n"])
async def test_opens_a_key_with_the_passphrase_in_a_file(tmp_path: Path, written: str) -> None:
    credentials = locked(tmp_path)
    (tmp_path / "passphrase").write_bytes(written.encode())
    async with transport(credentials, tmp_path / "home").access() as access:
        assert not leaks(str(access.environment).encode())
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["askpass", "identity"]


@pytest.mark.slow
async def test_says_that_the_passphrase_is_wrong_until_it_is_right(served: Path, tmp_path: Path) -> None:
    made = ssh.make_key(tmp_path / "key", passphrase=PASSPHRASE)
    (tmp_path / "passphrase").write_text("canary-wrong\n")
    with ssh.serving(tmp_path / "sshd", authorized=[made]) as server:
        credentials = Credentials(
            ssh_key_file=made.private,
            ssh_passphrase_file=tmp_path / "passphrase",
            known_hosts_file=server.known_hosts(tmp_path / "hosts"),
        )
        url = server.url(served / "telemetry.git")
        source = Source(url=url, credentials=credentials)
        git = GitProgram(tmp_path / "home", url=url, credentials=credentials)
        fault = errors.explain(source, await listed(git, url))
        told = (
            f"{url} refuses the ssh key in {made.private} (`credentials.sshKeyFile`); allow its public key there, write"
            " another into that file, or correct its passphrase in `credentials.sshPassphraseFile` or the user in `url`"
        )
        assert (fault.state, fault.message) == (RepositoryState.UNAUTHORIZED, told)
        (tmp_path / "passphrase").write_text(PASSPHRASE)
        assert (await listed(git, url)).status == 0


def answered(question: str, variables: dict[str, str]) -> tuple[int, str, str]:
    """Ask our askpass a question, and return (status, output, errors)."""
    done = subprocess.run(
        [variables["SSH_ASKPASS"], question],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


PASSPHRASE_QUESTION = "Enter passphrase for key 'identity': "


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (PASSPHRASE_QUESTION, (0, "canary-  p@ss\\n $word%s 'é\" \n")),
        (PASSPHRASE_QUESTION + "x", (1, "")),
        ("Enter passphrase for key '/etc/key': ", (1, "")),
        ("Are you sure you want to continue connecting (yes/no/[fingerprint])? ", (1, "")),
        ("", (1, "")),
    ],
)
async def test_answers_one_question_of_ssh_and_no_other(tmp_path: Path, question: str, answer: tuple[int, str]) -> None:
    passphrase = tmp_path / "passphrase"
    passphrase.write_text("canary-  p@ss\\n $word%s 'é\" \r\n")
    key = ssh.make_key(tmp_path / "key").private
    program = Ssh(Credentials(ssh_key_file=key, ssh_passphrase_file=passphrase), home=tmp_path)
    program.install()
    async with program.access() as access:
        variables = {name: value for name, value in access.environment.items() if not name.startswith("GIT_")}
        assert "canary-" not in str(variables)
    assert answered(question, variables) == (*answer, "")
    assert (tmp_path / "askpass").stat().st_mode & 0o777 == 0o700
