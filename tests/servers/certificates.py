"""A certificate authority of our own and the certificates that it signs, made with openssl; good for a day.

What is served under them, and who trusts the authority, is elsewhere.
"""

import ssl
import subprocess
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tests import needs

NAMES = ("IP:127.0.0.1", "DNS:localhost")
EC = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key, PEM files."""

    chain: Path
    key: Path

    def settings(self) -> dict[str, str]:
        """Return it as the settings of the service name it."""
        return {"certFile": str(self.chain), "keyFile": str(self.key)}

    def context(self) -> ssl.SSLContext:
        """Return what a server shows it with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain, self.key)
        return context


@dataclass(frozen=True, slots=True)
class Authority:
    """Whom a client trusts by `bundle`, a PEM file."""

    folder: Path
    bundle: Path

    @classmethod
    def make(cls, folder: Path) -> "Authority":
        """A new authority, its files in a folder that need not exist."""
        folder.mkdir(parents=True, exist_ok=True)
        bundle = folder / "authority.pem"
        usage = ("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign")
        _make(folder / "authority.key", bundle, name=f"Authority in {folder.name}", extensions=usage)
        return cls(folder, bundle)

    def issue(self, *names: str, name: str = "server", until: datetime | None = None) -> Certificate:
        """A certificate for these names in openssl's notation (`DNS:git.example`); for this machine when none is given.

        `name` is what the files are called: the same again replaces them. `until` may be in the past, in UTC.
        """
        made = Certificate(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        signer = ("-CA", str(self.bundle), "-CAkey", str(self.folder / "authority.key"))
        extensions = (f"subjectAltName={','.join(names or NAMES)}", "basicConstraints=critical,CA:FALSE")
        _make(made.key, made.chain, name=name, extensions=extensions, signer=signer)
        if until is not None:
            self._sign_again(made, until)
        return made

    def _sign_again(self, made: Certificate, until: datetime) -> None:
        """With another end, which `openssl req` does not take: a day before it to that."""
        openssl, wanted = needs.require("openssl"), made.chain.with_suffix(".csr")
        (self.folder / "index.txt").write_text("")
        (self.folder / "ca.cnf").write_text(_CONFIGURATION.format(folder=self.folder))
        _run([openssl, "x509", "-x509toreq", "-in", str(made.chain), "-signkey", str(made.key), "-out", str(wanted)])
        command = [openssl, "ca", "-batch", "-notext", "-config", str(self.folder / "ca.cnf"), "-rand_serial"]
        signer = ["-cert", str(self.bundle), "-keyfile", str(self.folder / "authority.key")]
        times = [f"{at:%Y%m%d%H%M%SZ}" for at in (until - timedelta(days=1), until)]
        span = ["-startdate", times[0], "-enddate", times[1]]
        _run([*command, *signer, *span, "-in", str(wanted), "-out", str(made.chain)])


def _make(
    key: Path, certificate: Path, *, name: str, extensions: tuple[str, ...], signer: tuple[str, ...] = ()
) -> None:
    """A key and its certificate, signed by itself when nobody else does."""
    added = [part for extension in extensions for part in ("-addext", extension)]
    command = [needs.require("openssl"), "req", "-x509", "-newkey", *EC, "-nodes", "-days", "1", *added, *signer]
    files = ["-subj", f"/CN={name}", "-keyout", str(key), "-out", str(certificate)]
    _run([*command, *files])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")


_CONFIGURATION = """\
[ca]
default_ca = here
[here]
database = {folder}/index.txt
new_certs_dir = {folder}
serial = {folder}/serial
default_md = sha256
policy = any
copy_extensions = copyall
unique_subject = no
[any]
commonName = supplied
"""
