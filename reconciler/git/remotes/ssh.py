"""ssh remotes: keys, known hosts, and an agent of our own."""

import asyncio
import base64
import binascii
import contextlib
import os
import re
import select
import shlex
import signal
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from reconciler.git.remotes import credentials, processes
from reconciler.git.remotes.credentials import KNOWN_HOSTS_FILE, SSH_KEY_FILE, SSH_PASSPHRASE_FILE, Credentials
from reconciler.git.remotes.https import Access, Transport
from reconciler.git.remotes.processes import Command
from reconciler.model.errors import Refused, Transient
from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import BoundedIO, FileIdentity

# An ssh agent of our own, for one key with a passphrase: ssh itself asks nobody while git runs.
#
# `ssh-agent` runs `cat`, which reads a pipe that we hold. When we end, however that happens, the pipe closes, `cat`
# ends, and the agent, which looks after it every ten seconds, ends too.

# Relative, since a socket's path may have 107 bytes. The agent, which goes to `/`, removes the name there when it ends:
# so nobody else may have a file of this name, and ours is for us to remove.
SOCKET = "reconciler-ssh-agent"
START_SECONDS = 10.0
ADD_SECONDS = 30.0  # opening a key is made slow on purpose, against guessing
OUTPUT_BYTES = 64 * 1024
PROMPT_BYTES = 200  # as much of the file's name is in ssh-add's question

# The agent tells its number in a variable. `cat` ends with the pipe.
SCRIPT = 'echo "$SSH_AGENT_PID"; exec cat'


class Agent:
    """At most one agent, which has the key as its file was last. `name` is its socket, from the folder `home`."""

    name = SOCKET

    def __init__(self, home: Path, *, key: Path, passphrase: Path) -> None:
        self._home = home
        self._key = key
        self._passphrase = passphrase
        self._asking = BoundedIO("the files with credentials")
        self._changing = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._agent: int | None = None  # a descriptor of the agent, which is no child of ours
        self._cat: int | None = None  # a descriptor of what the agent looks after
        self._files: tuple[FileIdentity | None, ...] | None = None  # as they were when it got the key

    async def ready(self) -> None:
        """Make it run, with the key as it is now.

        Raises GitFault (unauthorized) when the passphrase does not open the key, Refused without ssh's programs,
        Transient when one of them cannot be started or does not answer, or a file does not.
        """
        async with self._changing:
            if not self._runs():
                await self._end()
                await self._start()
            found = await self._asking.answer(self._identities)
            if found != self._files:
                self._files = None
                await self._add()
                self._files = found

    async def close(self) -> None:
        """End it. The next `ready` starts another."""
        async with self._changing:
            await self._end()

    def _identities(self) -> tuple[FileIdentity | None, ...]:
        files = (self._key, self._passphrase, self._key.with_name(f"{self._key.name}-cert.pub"))
        return tuple(map(bounded_io.file_identity, files))

    def _runs(self) -> bool:
        """Return whether both are alive. A descriptor of a process can be read once that has ended, reaped or not."""
        if self._agent is None or self._cat is None:
            return False
        ended = select.poll()
        ended.register(self._agent, select.POLLIN)
        ended.register(self._cat, select.POLLIN)
        return not ended.poll(0)

    async def _start(self) -> None:
        starting = asyncio.create_task(self._execute(), name="start ssh-agent")
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(Refused, Transient):
                await starting
            await self._end()
            raise

    async def _execute(self) -> None:
        """Whatever fails, nothing of it stays."""
        try:
            await asyncio.to_thread(credentials.install_askpass, self._home)
            self._process = await self._started()
            self._cat = os.pidfd_open(self._process.pid)
            self._agent = os.pidfd_open(int(await _number(self._process)))
        except FileNotFoundError as error:
            raise processes.missing_program("ssh-agent", folder=self._home) from error
        except (ValueError, ProcessLookupError):
            await self._end()
            raise Refused(f"ssh-agent does not run in {self._home}; look whether that folder can be written") from None
        except OSError as error:
            await self._end()
            told = f"the program ssh-agent cannot be started ({os.strerror(error.errno or 0)})"
            raise Transient(f"{told}; it is tried again") from error

    async def _started(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *("ssh-agent", "-a", SOCKET, "/bin/sh", "-c", SCRIPT),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=self._home,
            env=processes.environment(self._home),
            start_new_session=True,
        )

    async def _add(self) -> None:
        """Give it the key alone, opened with the passphrase."""
        passphrase = await self._asking.answer(partial(credentials.secret_line, self._passphrase, SSH_PASSPHRASE_FILE))
        try:
            await self._ssh_add("-q", "-D")
        except TimeoutError:
            await self._end()
            raise Transient(f"ssh-agent did not answer within {ADD_SECONDS:g} seconds; it is started again") from None
        try:
            added = await self._opened(passphrase)
        except TimeoutError:
            wrong = f"takes more than {ADD_SECONDS:g} seconds to open"
            credentials.refuse_file(
                self._key, SSH_KEY_FILE, wrong, "make the key anew with fewer rounds (`ssh-keygen -a`)"
            )
        if not added:
            mend = f"correct it, or {SSH_KEY_FILE}"
            credentials.refuse_file(self._passphrase, SSH_PASSPHRASE_FILE, f"does not open the key {self._key}", mend)

    async def _opened(self, passphrase: bytes) -> bool:
        """Return whether the passphrase opened the key, which the agent has then."""
        with credentials.open_memory_file(passphrase + b"\n") as descriptor:
            shown = os.fsencode(self._key)[:PROMPT_BYTES].decode("utf-8", "surrogateescape")
            asked = credentials.askpass_variables(
                f"Enter passphrase for {shown}: ", credentials.inherited_path(descriptor)
            )
            return await self._ssh_add("-q", "--", str(self._key), variables=asked, descriptors=(descriptor,))

    async def _ssh_add(
        self, *arguments: str, variables: dict[str, str] | None = None, descriptors: tuple[int, ...] = ()
    ) -> bool:
        asking = {
            "SSH_ASKPASS": str(self._home / credentials.NAME),
            "SSH_ASKPASS_REQUIRE": "force",
            "SSH_AUTH_SOCK": SOCKET,
        }
        finished = await processes.run_command(
            Command(
                arguments=("ssh-add", *arguments),
                folder=self._home,
                environment={**processes.environment(self._home), **asking, **(variables or {})},
                descriptors=descriptors,
                seconds=ADD_SECONDS,
                output_bytes=OUTPUT_BYTES,
            )
        )
        return finished.status == 0

    async def _end(self) -> None:
        """The agent first: it would notice its `cat` late."""
        process, agent, cat = self._process, self._agent, self._cat
        self._process = self._agent = self._cat = self._files = None
        if agent is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(agent, signal.SIGTERM)
            os.close(agent)
        if cat is not None:
            os.close(cat)
        if process is not None:
            await processes.end_process(process)
        (self._home / SOCKET).unlink(missing_ok=True)


async def _number(process: asyncio.subprocess.Process) -> bytes:
    """The number of the agent, as its script tells it; nothing when that does not come."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            return await process.stdout.readline() if process.stdout is not None else b""
    return b""


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

_BEGIN = re.compile(rb"^-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----", re.MULTILINE)
_OPENSSH = re.compile(rb"-----BEGIN OPENSSH PRIVATE KEY-----\s([A-Za-z0-9+/=\s]+)-----END")
# PROTOCOL.key of OpenSSH: how every key begins, and the name of the cipher of one without passphrase.
_MAGIC = b"openssh-key-v1\0"
_PLAIN = b"\0\0\0\4none"


class Ssh(Transport):
    """One URL with its credentials. `home` is the program's own folder, in which ssh runs."""

    def __init__(self, credentials: Credentials, *, home: Path) -> None:
        super().__init__("ssh")
        self._credentials = credentials
        self._asking = BoundedIO("the files with credentials")
        key, passphrase = credentials.ssh_key_file, credentials.ssh_passphrase_file
        self._agent = (
            Agent(home, key=key, passphrase=passphrase) if key is not None and passphrase is not None else None
        )

    @asynccontextmanager
    async def access(self) -> AsyncIterator[Access]:
        await self._asking.answer(partial(_check, self._credentials))
        if self._agent is not None:
            await self._agent.ready()
        agent = None if self._agent is None else self._agent.name
        yield Access(
            environment={"GIT_SSH_COMMAND": ssh_command(self._credentials, agent=agent), "GIT_SSH_VARIANT": "ssh"}
        )

    async def close(self) -> None:
        if self._agent is not None:
            await self._agent.close()


def ssh_command(credentials: Credentials, *, agent: str | None) -> str:
    """The command that git has a shell run. `agent`: the socket with the one key, from the folder that git runs in."""
    known = _path(str(credentials.known_hosts_file or os.devnull))
    key = _path(str(credentials.ssh_key_file)) if credentials.ssh_key_file is not None else "none"
    # The agent has one key; of some formats ssh could not tell from the file which one that is.
    shown = (f"IdentityFile={key}", "IdentitiesOnly=yes", "IdentityAgent=none")
    if agent is not None:
        shown = ("IdentityFile=none", "IdentitiesOnly=no", f"IdentityAgent={_path(agent)}")
    options = (*OPTIONS, f"UserKnownHostsFile={known}", *shown)
    return shlex.join(["ssh", "-F", "none", *(part for option in options for part in ("-o", option))])


def _path(path: str) -> str:
    """A path as ssh reads it in an option: in quotes, and `%` begins what it replaces. The settings refuse the rest."""
    return '"' + path.replace("%", "%%") + '"'


def _check(credentials: Credentials) -> None:
    """Raises GitFault for files with which ssh could only fail, and would not say why."""
    hosts, key = credentials.known_hosts_file, credentials.ssh_key_file
    if hosts is not None:
        _check_hosts(hosts)
    if key is not None:
        _check_key(key, has_passphrase=credentials.ssh_passphrase_file is not None)


def _check_hosts(path: Path) -> None:
    lines = credentials.secret_content(path, KNOWN_HOSTS_FILE, limit=credentials.MOST_LIST_BYTES).splitlines()
    if not any(line.strip() and not line.lstrip().startswith(b"#") for line in lines):
        mend = "write the server's line of `ssh-keyscan` into it, once you know that the key is the server's"
        credentials.refuse_file(path, KNOWN_HOSTS_FILE, "names no host", mend)


def _check_key(path: Path, *, has_passphrase: bool) -> None:
    text = credentials.secret_content(path, SSH_KEY_FILE)
    begin = _BEGIN.search(text)
    if begin is None:
        credentials.refuse_file(path, SSH_KEY_FILE, "holds no private key", f"put one there, or correct {SSH_KEY_FILE}")
    with contextlib.suppress(OSError):
        found = path.stat()
        if found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) & 0o077:  # ssh's own rule
            credentials.refuse_file(
                path, SSH_KEY_FILE, "may be read by others, so ssh does not use it", "make its mode 0600"
            )
    if not has_passphrase and _is_encrypted(text, kind=begin[1]):
        mend = f"name the file of the passphrase in {SSH_PASSPHRASE_FILE}"
        credentials.refuse_file(path, SSH_KEY_FILE, "holds a key that has a passphrase", mend)


def _is_encrypted(text: bytes, *, kind: bytes) -> bool:
    if kind != b"OPENSSH ":
        return b"ENCRYPTED" in text  # in PEM's first line (PKCS #8) or in its headers
    found = _OPENSSH.search(text)
    with contextlib.suppress(binascii.Error):
        held = b"" if found is None else base64.b64decode(found[1])
        return held.startswith(_MAGIC) and not held.startswith(_MAGIC + _PLAIN)
    return False
