"""ssh remotes: keys and known hosts."""

import os
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from reconciler.git.remotes import credentials
from reconciler.git.remotes.credentials import (
    KNOWN_HOSTS_FILE,
    SSH_KEY_FILE,
    SSH_PASSPHRASE_FILE,
    Access,
    Credentials,
    Transport,
    secret_content,
    secret_line,
)
from reconciler.settings.bounded_io import BoundedIO

# ssh: its keys and trusted hosts. They come only from the settings, and nothing is forwarded.

# `-F none` ignores the configuration of the user and the system, so only these options and ssh's defaults apply: no
# forwarding, no local command, no proxy, no control socket. The key exchange sntrup761 is left out, because it takes
# older versions of ssh 60 ms of CPU in every run. Newer versions have ML-KEM, which resists the same attacks at nearly
# no cost.
OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "GlobalKnownHostsFile=/dev/null",
    "PreferredAuthentications=publickey",
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
    "ClearAllForwardings=yes",
    "ConnectTimeout=30",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
    "KexAlgorithms=-sntrup761*",
)

# The key under our own name, in ssh's working directory. Beside the real file there may be an old public key of another
# pair, which ssh would offer.
IDENTITY = "identity"

# The program that answers ssh's question for the passphrase of our key. It answers no other question, such as for
# another key or host. The passphrase is in no argument and no variable: it is read from its own file.
ASKPASS = "askpass"
ASKPASS_SCRIPT = """\
#!/bin/sh
[ "$1" = "$RECONCILER_QUESTION" ] || exit 1
IFS= read -r answer < "$RECONCILER_ANSWER" || [ -n "$answer" ] || exit 1
printf '%s\\n' "${answer%"$(printf '\\r')"}"
"""


class Ssh(Transport):
    """One URL with its credentials. `home` is the program's own folder, in which ssh runs.

    A key with a passphrase is opened by each ssh: it asks our askpass, which reads the file.
    """

    def __init__(self, credentials: Credentials, *, home: Path) -> None:
        super().__init__("ssh")
        self._credentials = credentials
        self._home = home
        self._asking = BoundedIO("the files with credentials")

    def install(self) -> str:
        credentials.replace_file(self._home / ASKPASS, ASKPASS_SCRIPT, mode=0o700)
        if self._credentials.ssh_key_file is not None:
            (self._home / IDENTITY).unlink(missing_ok=True)
            (self._home / IDENTITY).symlink_to(self._credentials.ssh_key_file)
        return ""

    @asynccontextmanager
    async def access(self) -> AsyncIterator[Access]:
        key, passphrase = self._credentials.ssh_key_file, self._credentials.ssh_passphrase_file
        await self._asking.answer(self._check_files)
        variables: dict[str, str] = {}
        if key is not None and passphrase is not None:
            variables = {
                "SSH_ASKPASS": str(self._home / ASKPASS),
                "SSH_ASKPASS_REQUIRE": "force",
                "RECONCILER_QUESTION": f"Enter passphrase for key '{IDENTITY}': ",
                "RECONCILER_ANSWER": str(passphrase),
            }
        yield Access(
            environment={"GIT_SSH_COMMAND": ssh_command(self._credentials), "GIT_SSH_VARIANT": "ssh", **variables}
        )

    def _check_files(self) -> None:
        """Raise GitFault for files that cannot be read."""
        given = self._credentials
        if given.known_hosts_file is not None:
            secret_content(given.known_hosts_file, KNOWN_HOSTS_FILE, limit=credentials.MOST_LIST_BYTES)
        if given.ssh_key_file is not None:
            secret_content(given.ssh_key_file, SSH_KEY_FILE)
        if given.ssh_passphrase_file is not None:
            secret_line(given.ssh_passphrase_file, SSH_PASSPHRASE_FILE)


def ssh_command(credentials: Credentials) -> str:
    """Return the command that git runs in a shell."""
    known = _path(str(credentials.known_hosts_file or os.devnull))
    shown: tuple[str, ...] = ("IdentityFile=none",)
    if credentials.ssh_key_file is not None:
        certificate = _path(f"{credentials.ssh_key_file}-cert.pub")
        shown = (f"IdentityFile={IDENTITY}", f"CertificateFile={certificate}")
    # If an option is given twice, ssh uses the first.
    asking = () if credentials.ssh_passphrase_file is None else ("BatchMode=no", "NumberOfPasswordPrompts=1")
    options = (*asking, *OPTIONS, f"UserKnownHostsFile={known}", *shown)
    return shlex.join(["ssh", "-F", "none", *(part for option in options for part in ("-o", option))])


def _path(path: str) -> str:
    """Quote a path for an option of ssh, with `%` doubled. The settings refuse other special characters."""
    return '"' + path.replace("%", "%%") + '"'
