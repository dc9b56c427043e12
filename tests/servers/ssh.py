"""OpenSSH's server for the user who runs the tests, root or not, with the host keys and the authorized keys of a test.

    key = ssh.make_key(tmp_path / "key", "ed25519", passphrase="canary-passphrase")
    with ssh.serving(tmp_path / "sshd", authorized=[key]) as server:
        server.url(folder / "telemetry.git")     # ssh://<user>@127.0.0.1:<port>/...
        server.known_hosts(tmp_path / "known_hosts", hashed=True)

What is authorized and which host key is shown may be changed while it runs.
"""

import contextlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import needs
from tests.servers import processes
from tests.servers.processes import ADDRESS

RUNTIME_FOLDER = Path("/run/sshd")  # where a server that runs as root separates its privileges

# The types of keys as these tests call them, with the arguments of ssh-keygen that make them.
KINDS = {
    "ed25519": ("-t", "ed25519"),
    "rsa": ("-t", "rsa", "-b", "2048"),
    "ecdsa-256": ("-t", "ecdsa", "-b", "256"),
    "ecdsa-384": ("-t", "ecdsa", "-b", "384"),
    "ecdsa-521": ("-t", "ecdsa", "-b", "521"),
}

CONFIGURATION = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {host_key}
AuthorizedKeysFile {authorized}
{more}
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AcceptEnv GIT_PROTOCOL
MaxStartups 200
LogLevel VERBOSE
"""


@dataclass(frozen=True, slots=True)
class Key:
    """A private key's file and the public key, `type base64`."""

    private: Path
    public: str


def make_key(path: Path, kind: str = "ed25519", *, passphrase: str = "", form: str = "RFC4716") -> Key:
    """A new key pair of a kind in KINDS, in a form that ssh-keygen knows; what was at the path is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    command = [needs.require("ssh-keygen"), "-q", *KINDS[kind], "-m", form, "-N", passphrase, "-C", "", "-f", str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return Key(path, " ".join(path.with_name(f"{path.name}.pub").read_text().split()[:2]))


@dataclass
class Server:
    """A server that runs. Its log says who came and how they were judged."""

    folder: Path
    port: int
    host_key: Key
    user: str

    @property
    def log(self) -> Path:
        """Return what it wrote."""
        return self.folder / "log"

    def url(self, repository: Path, *, port: int | None = None, host: str = ADDRESS) -> str:
        """The URL of a repository; `port` is that of a proxy before the server."""
        return f"ssh://{self.user}@{host}:{self.port if port is None else port}{repository}"

    def authorize(self, *keys: Key) -> None:
        """Let exactly these keys in, from the next connection on."""
        _write(self.folder / "authorized_keys", "".join(f"{key.public}\n" for key in keys))

    def known_hosts(
        self, path: Path, *, key: Key | None = None, port: int | None = None, hashed: bool = False, host: str = ADDRESS
    ) -> Path:
        """Write a file that trusts the server's host key, or another one, under the name that a client asks for."""
        name = f"[{host}]:{self.port if port is None else port}"
        path.write_text(f"{name} {(key or self.host_key).public}\n")
        if hashed:
            command = [needs.require("ssh-keygen"), "-q", "-H", "-f", str(path)]
            subprocess.run(command, check=True, capture_output=True, timeout=10)
            path.with_name(f"{path.name}.old").unlink()  # the names in clear
            assert host not in path.read_text()
        return path

    def accepted(self) -> int:
        """How many connections were let in."""
        return self.log.read_text(errors="replace").count("Accepted publickey for ")

    def connections(self) -> int:
        """How many connections came."""
        return self.log.read_text(errors="replace").count("Connection from ")


@contextlib.contextmanager
def serving(
    folder: Path,
    *,
    authorized: Sequence[Key] = (),
    host_key: Key | None = None,
    port: int | None = None,
    algorithms: str = "",
) -> Iterator[Server]:
    """Serve whatever the user who runs the tests may read. `host_key`: a new one of ed25519 when left out.

    `port`: of a server before, in whose place this one comes. `algorithms`: of the host key, such as `rsa-sha2-512`.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    chosen = processes.free_port() if port is None else port
    shown = make_key(folder / "host_key") if host_key is None else host_key
    server = Server(folder, chosen, shown, _user())
    server.authorize(*authorized)
    (folder / "configuration").write_text(
        CONFIGURATION.format(
            port=chosen,
            host_key=shown.private,
            authorized=folder / "authorized_keys",
            more=f"HostKeyAlgorithms {algorithms}" if algorithms else "",
        )
    )
    command = [_program(), "-D", "-e", "-f", str(folder / "configuration")]
    environment = {"PATH": os.environ.get("PATH", os.defpath)}
    with processes.listening(command, port=chosen, log=server.log, environment=environment):
        yield server


def _program() -> str:
    """The server's path: it starts itself anew by it, so that it must be absolute."""
    if os.geteuid() == 0:
        RUNTIME_FOLDER.mkdir(mode=0o755, exist_ok=True)
    return shutil.which("sshd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin") or needs.lacking(
        "the program sshd"
    )


def _user() -> str:
    """Return who runs the tests; the server starts git in their shell."""
    entry = pwd.getpwuid(os.geteuid())
    if not os.access(entry.pw_shell or "/bin/sh", os.X_OK) or entry.pw_shell.endswith(("/nologin", "/false")):
        needs.lacking(f"a shell for the user {entry.pw_name}")
    return entry.pw_name


def _write(path: Path, text: str) -> None:
    """Replace a file at once: the server may read it at any moment."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.chmod(0o600)
    new.replace(path)
