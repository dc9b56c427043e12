"""Keys that sign commits in tests, and files of allowed signers.

ada = Signer.make(tmp_path, "ada")
sign_with(repository, ada)
allow(tmp_path / "signers", ada)
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests import needs
from tests.repositories import Repository


@dataclass(frozen=True, slots=True)
class Signer:
    """A key, and what its lines of a file of signers call its owner."""

    name: str
    key: Path

    @classmethod
    def make(cls, folder: Path, name: str, *, kind: str = "ed25519") -> "Signer":
        """A new key without a passphrase."""
        key = folder / name
        subprocess.run(
            [needs.require("ssh-keygen"), "-q", "-t", kind, "-N", "", "-C", name, "-f", key], check=True, timeout=30
        )
        return cls(name, key)

    @property
    def public(self) -> str:
        """The type of the key and the key."""
        return " ".join(self.key.with_suffix(".pub").read_text().split()[:2])

    @property
    def fingerprint(self) -> str:
        """As people compare it."""
        told = subprocess.run(["ssh-keygen", "-lf", self.key], capture_output=True, text=True, check=True, timeout=30)
        return told.stdout.split()[1]

    def line(self, options: str = "") -> str:
        """A line that allows this key."""
        return f"{self.name}@example.com {options} {self.public}\n"

    def signature(self, text: bytes, *, namespace: str = "git") -> bytes:
        """A signature of any text."""
        command = ["ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", str(self.key)]
        return subprocess.run(command, input=text, capture_output=True, check=True, timeout=30).stdout


def allow(path: Path, *signers: Signer) -> Path:
    """A file that allows these and nobody else."""
    path.write_text("# who may sign\n\n" + "".join(signer.line() for signer in signers))
    return path


def sign_with(repository: Repository, signer: Signer | None) -> None:
    """Sign every commit from now on, and tags when asked to; None: sign no more."""
    repository.git("config", "commit.gpgsign", "false" if signer is None else "true")
    if signer is not None:
        repository.git("config", "gpg.format", "ssh")
        repository.git("config", "user.signingkey", str(signer.key))
