"""Credentials of a remote: where they are, how they are read, what they give to a run of git, and how they are kept out
of messages.
"""

import base64
import os
import pwd
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import FileTooLarge, NotAFile

# The credentials of a remote: a name and the files with the secrets, never a secret itself.

# The names of settings in messages.
PASSWORD_FILE = "credentials.passwordFile"  # noqa: S105 - the name of a setting, as are the others
TOKEN_FILE = "credentials.tokenFile"  # noqa: S105
SSH_KEY_FILE = "credentials.sshKeyFile"
SSH_PASSPHRASE_FILE = "credentials.sshPassphraseFile"  # noqa: S105
KNOWN_HOSTS_FILE = "credentials.knownHostsFile"
CA_FILE = "credentials.caFile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Names and paths from the settings; None or empty if not given. The settings check that they fit the URL."""

    username: str = ""
    password_file: Path | None = None
    token_file: Path | None = None
    ssh_key_file: Path | None = None
    ssh_passphrase_file: Path | None = None
    known_hosts_file: Path | None = None
    ca_file: Path | None = None
    proxy: str = ""

    def files(self) -> tuple[Path, ...]:
        """The configured files in a fixed order. A change of one may correct a refusal."""
        given = (getattr(self, field.name) for field in fields(self))
        return tuple(value for value in given if isinstance(value, Path))


ANONYMOUS = Credentials()


def replace_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a whole file or none of it: a program that reads it may be started at any moment."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_text(text, encoding="utf-8", errors="surrogateescape")
    temporary.chmod(mode)
    temporary.replace(path)


# Masking secrets in the output of remotes and programs: a server may return the header that it got.
#
# Pure. The caller knows the secrets. Parse a text before masking it, because a secret may be a common word.

HIDDEN = b"(sensitive)"


def secret_forms(secret: bytes, *, username: str = "") -> frozenset[bytes]:
    """Return the forms of a secret in a text: plain, in a URL, and in basic authentication with its user name."""
    percent = quote(secret, safe="").encode()
    converted = secret.decode("latin-1").encode()  # git reads a page as Latin-1 if it names no encoding
    encoded = (base64.b64encode(secret), base64.b64encode(username.encode() + b":" + secret))
    return frozenset({secret, converted, percent, percent.lower(), *encoded, *(one.rstrip(b"=") for one in encoded)})


def redacted(text: bytes, secrets: Iterable[bytes]) -> bytes:
    """Replace all of these in a text, the longest first, since one may be a part of another."""
    found = sorted(filter(None, secrets), key=lambda one: (-len(one), one))
    return re.sub(b"|".join(map(re.escape, found)), HIDDEN, text) if found else text


def redacted_text(text: str, secrets: Iterable[bytes]) -> str:
    """Replace all of these in a decoded text."""
    return redacted(text.encode("utf-8", "replace"), secrets).decode("utf-8", "replace")


# Files in memory, which programs inherit. After a run, nothing remains of them.


@contextmanager
def open_memory_file(content: bytes) -> Iterator[int]:
    """Open a file in memory, at its beginning, until the context ends; yield its descriptor."""
    descriptor = os.memfd_create("reconciler", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def inherited_path(descriptor: int) -> str:
    """Return the path under which a program opens an inherited file."""
    return f"/proc/self/fd/{descriptor}"


def this_user() -> str:
    """Return the name of this process's user, or the number if it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


# Reading the files with credentials. They are read for each run, so a new secret counts from the next run on.
#
# An error names the file, and never contains any of its content.

MOST_BYTES = 64 * 1024
MOST_LIST_BYTES = 4 << 20  # of a file without secrets: the authorities of a whole system, the hosts of a large company

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")


def secret_line(path: Path, setting: str) -> bytes:
    """Read the secret in a file of one line, without the newline at its end; `setting` is the key that names the file.

    Raises GitFault (unauthorized) for a file that cannot be read, or holds nothing, more than a line, or too much.
    """
    secret = secret_content(path, setting).removesuffix(b"\n").removesuffix(b"\r")
    if not secret:
        refuse_file(path, setting, "is empty", "write the secret into it")
    if _CONTROL.search(secret):
        refuse_file(path, setting, "holds more than one line, or control characters", "write the secret alone into it")
    return secret


def secret_content(path: Path, setting: str, *, limit: int = MOST_BYTES) -> bytes:
    """Read all bytes of a regular file. Raises GitFault (unauthorized)."""
    try:
        return file_content(path, limit=limit)
    except UnusableFile as fault:
        refuse_file(path, setting, str(fault), f"mend that, or correct {setting}")


class UnusableFile(Exception):
    """A file of the settings cannot be used. The message follows its name, and has nothing of its content."""


def file_content(path: Path, *, limit: int) -> bytes:
    """Read all bytes of a regular file, at most `limit`. Raises UnusableFile."""
    try:
        return bounded_io.read_file(path, limit=limit)
    except (FileNotFoundError, NotADirectoryError):
        why = "does not exist"
    except PermissionError:
        why = f"cannot be read by the user {this_user()}"
    except OSError as error:
        why = f"cannot be read ({os.strerror(error.errno or 0)})"
    except NotAFile:
        why = "is not a regular file"
    except FileTooLarge:
        why = f"has more than {limit} bytes"
    raise UnusableFile(why)


def refuse_file(path: Path, setting: str, wrong: str, mend: str) -> NoReturn:
    """Raise a GitFault that says what is wrong with a file, and what to do."""
    raise GitFault(RepositoryState.UNAUTHORIZED, f"{path}, the file of {setting}, {wrong}; {mend}")


# Access to a repository: what a run needs in addition, for each kind of URL.


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The variables of one run, the open files that they name, and the secrets to remove from its output."""

    environment: Mapping[str, str] = field(default_factory=dict)
    descriptors: tuple[int, ...] = ()
    secrets: frozenset[bytes] = frozenset()


class Transport:
    """The access to a repository by its URL and credentials. This class is for `file` and `git`.

    `protocol` is the name in GIT_ALLOW_PROTOCOL.
    """

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol

    def install(self) -> str:
        """Write the files for every run into the program's folder. Return lines for git's configuration file."""
        return ""

    @asynccontextmanager
    async def access(self) -> AsyncIterator[Access]:
        """Return the access of one run, from the present files. Raises GitFault for an unusable file."""
        yield Access()


def quoted_path(text: str) -> str:
    """Return a text quoted for git's configuration: a value or a subsection name without control characters."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
