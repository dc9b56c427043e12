"""ssh remotes: keys and known hosts."""

import os
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from reconciler.git.remotes import credentials, processes
from reconciler.git.remotes.credentials import (
    KNOWN_HOSTS_FILE,
    SSH_KEY_FILE,
    SSH_PASSPHRASE_FILE,
    Credentials,
    secret_content,
    secret_line,
)
from reconciler.git.remotes.https import Access, Transport
from reconciler.git.remotes.processes import Command
from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import BoundedIO, FileIdentity

# ssh: which keys are shown and which hosts are believed. Nothing but what the settings say, and nothing forwarded.

# `-F none` keeps the user's and the system's configuration out, so that these and ssh's own defaults are all there is.
# One exchange of keys is left out: sntrup761 takes older versions of ssh 60 ms of CPU in every run. Newer ones have
# ML-KEM, which withstands the same attacks and costs nothing to speak of.
OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "GlobalKnownHostsFile=/dev/null",
    "KnownHostsCommand=none",
    "VerifyHostKeyDNS=no",
    "UpdateHostKeys=no",
    "CheckHostIP=no",
    "CanonicalizeHostname=no",
    "PreferredAuthentications=publickey",
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
    "AddKeysToAgent=no",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "Tunnel=no",
    "PermitLocalCommand=no",
    "ProxyCommand=none",
    "ProxyJump=none",
    "ControlMaster=no",
    "ControlPath=none",
    "EscapeChar=none",
    "RequestTTY=no",
    "ConnectTimeout=30",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
    "KexAlgorithms=-sntrup761*",
    "LogLevel=INFO",  # below, it does not say why it cannot agree with a host
)

OPEN_SECONDS = 30.0  # opening a key is made slow on purpose, against guessing
OUTPUT_BYTES = 64 * 1024
# The key by a name of ours, in the folder in which ssh runs. Beside the key itself may be the public half of another,
# which was there before, and ssh would show that.
IDENTITY = "identity"


class Ssh(Transport):
    """One URL with its credentials. `home` is the program's own folder, in which ssh runs.

    A key with a passphrase is opened by each ssh: it asks our askpass, which reads the file.
    """

    def __init__(self, credentials: Credentials, *, home: Path) -> None:
        super().__init__("ssh")
        self._credentials = credentials
        self._home = home
        self._asking = BoundedIO("the files with credentials")
        self._checked: tuple[FileIdentity | None, ...] = ()  # the key and the passphrase, when they were of use

    def install(self) -> str:
        credentials.install_askpass(self._home)
        if self._credentials.ssh_key_file is not None:
            (self._home / IDENTITY).unlink(missing_ok=True)
            (self._home / IDENTITY).symlink_to(self._credentials.ssh_key_file)
        return ""

    @asynccontextmanager
    async def access(self) -> AsyncIterator[Access]:
        key, passphrase = self._credentials.ssh_key_file, self._credentials.ssh_passphrase_file
        files = await self._asking.answer(partial(_check_files, self._credentials))
        if key is not None and files != self._checked:
            await self._check_key(key, passphrase)
        self._checked = files
        variables: dict[str, str] = {}
        if key is not None and passphrase is not None:
            variables = self._answering(passphrase, f"Enter passphrase for key '{IDENTITY}': ")
        yield Access(
            environment={"GIT_SSH_COMMAND": ssh_command(self._credentials), "GIT_SSH_VARIANT": "ssh", **variables}
        )

    async def _check_key(self, key: Path, passphrase: Path | None) -> None:
        """Raises GitFault for a key that ssh could not use, and would not say why."""
        arguments, asked = ["ssh-keygen", "-y", "-f", str(key)], {}
        if passphrase is None:
            arguments += ["-P", ""]
        else:  # the two wordings are of older and newer versions
            asked = self._answering(passphrase, "Enter passphrase: ", f'Enter passphrase for "{key}": ')
        command = Command(
            arguments=tuple(arguments),
            folder=self._home,
            environment={**processes.environment(self._home), **asked},
            seconds=OPEN_SECONDS,
            output_bytes=OUTPUT_BYTES,
        )
        try:
            finished = await processes.run_command(command)
        except TimeoutError:
            wrong = f"takes more than {OPEN_SECONDS:g} seconds to open"
            credentials.refuse_file(key, SSH_KEY_FILE, wrong, "make the key anew with fewer rounds (`ssh-keygen -a`)")
        if finished.status == 0:
            return
        if b": bad permissions" in finished.errors:
            wrong = "may be read by others, so ssh does not use it"
            credentials.refuse_file(key, SSH_KEY_FILE, wrong, "make its mode 0600")
        if b": incorrect passphrase" not in finished.errors:
            credentials.refuse_file(
                key, SSH_KEY_FILE, "holds no private key", f"put one there, or correct {SSH_KEY_FILE}"
            )
        if passphrase is not None:
            mend = f"correct it, or {SSH_KEY_FILE}"
            credentials.refuse_file(passphrase, SSH_PASSPHRASE_FILE, f"does not open the key {key}", mend)
        mend = f"name the file of the passphrase in {SSH_PASSPHRASE_FILE}"
        credentials.refuse_file(key, SSH_KEY_FILE, "holds a key that has a passphrase", mend)

    def _answering(self, passphrase: Path, question: str, other: str = "") -> dict[str, str]:
        return {
            "SSH_ASKPASS": str(self._home / credentials.NAME),
            "SSH_ASKPASS_REQUIRE": "force",
            **credentials.askpass_variables(question, str(passphrase), encoded=other),
        }


def ssh_command(credentials: Credentials) -> str:
    """The command that git has a shell run."""
    known = _path(str(credentials.known_hosts_file or os.devnull))
    shown: tuple[str, ...] = ("IdentityFile=none",)
    if credentials.ssh_key_file is not None:
        certificate = _path(f"{credentials.ssh_key_file}-cert.pub")
        shown = (f"IdentityFile={IDENTITY}", f"CertificateFile={certificate}")
    # Of an option that is given twice, ssh takes the first.
    asking = () if credentials.ssh_passphrase_file is None else ("BatchMode=no", "NumberOfPasswordPrompts=1")
    options = (*asking, *OPTIONS, f"UserKnownHostsFile={known}", *shown)
    return shlex.join(["ssh", "-F", "none", *(part for option in options for part in ("-o", option))])


def _path(path: str) -> str:
    """A path as ssh reads it in an option: in quotes, and `%` begins what it replaces. The settings refuse the rest."""
    return '"' + path.replace("%", "%%") + '"'


def _check_files(given: Credentials) -> tuple[FileIdentity | None, ...]:
    """Raises GitFault for files that cannot be read, or name no host. Returns which key and passphrase they are."""
    if given.known_hosts_file is not None:
        content = secret_content(given.known_hosts_file, KNOWN_HOSTS_FILE, limit=credentials.MOST_LIST_BYTES)
        if not any(line.strip() and not line.lstrip().startswith(b"#") for line in content.splitlines()):
            mend = "write the server's line of `ssh-keyscan` into it, once you know that the key is the server's"
            credentials.refuse_file(given.known_hosts_file, KNOWN_HOSTS_FILE, "names no host", mend)
    if given.ssh_key_file is not None:
        secret_content(given.ssh_key_file, SSH_KEY_FILE)
    if given.ssh_passphrase_file is not None:
        secret_line(given.ssh_passphrase_file, SSH_PASSPHRASE_FILE)
    files = (given.ssh_key_file, given.ssh_passphrase_file)
    return tuple(bounded_io.file_identity(path) for path in files if path is not None)
