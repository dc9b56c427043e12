"""ssh: which keys are shown and which hosts are believed. Nothing but what the settings say, and nothing forwarded.

Belongs here: ssh's options, and looking at the files before ssh does, since it tells little. Does not: keys that need a
passphrase (`agents`).
"""

import base64
import binascii
import contextlib
import os
import re
import shlex
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from reconciler.remotes import secret_files
from reconciler.remotes.agents import Agent
from reconciler.remotes.credentials import KNOWN_HOSTS_FILE, SSH_KEY_FILE, SSH_PASSPHRASE_FILE, Credentials
from reconciler.remotes.transports import Access, Transport
from reconciler.settings.bounded_io import BoundedIO

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
    lines = secret_files.secret_content(path, KNOWN_HOSTS_FILE, limit=secret_files.MOST_LIST_BYTES).splitlines()
    if not any(line.strip() and not line.lstrip().startswith(b"#") for line in lines):
        mend = "write the server's line of `ssh-keyscan` into it, once you know that the key is the server's"
        secret_files.refuse_file(path, KNOWN_HOSTS_FILE, "names no host", mend)


def _check_key(path: Path, *, has_passphrase: bool) -> None:
    text = secret_files.secret_content(path, SSH_KEY_FILE)
    begin = _BEGIN.search(text)
    if begin is None:
        secret_files.refuse_file(
            path, SSH_KEY_FILE, "holds no private key", f"put one there, or correct {SSH_KEY_FILE}"
        )
    with contextlib.suppress(OSError):
        found = path.stat()
        if found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) & 0o077:  # ssh's own rule
            secret_files.refuse_file(
                path, SSH_KEY_FILE, "may be read by others, so ssh does not use it", "make its mode 0600"
            )
    if not has_passphrase and _is_encrypted(text, kind=begin[1]):
        mend = f"name the file of the passphrase in {SSH_PASSPHRASE_FILE}"
        secret_files.refuse_file(path, SSH_KEY_FILE, "holds a key that has a passphrase", mend)


def _is_encrypted(text: bytes, *, kind: bytes) -> bool:
    if kind != b"OPENSSH ":
        return b"ENCRYPTED" in text  # in PEM's first line (PKCS #8) or in its headers
    found = _OPENSSH.search(text)
    with contextlib.suppress(binascii.Error):
        held = b"" if found is None else base64.b64decode(found[1])
        return held.startswith(_MAGIC) and not held.startswith(_MAGIC + _PLAIN)
    return False
