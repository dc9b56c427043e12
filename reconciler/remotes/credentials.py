"""What a remote asks for: a name, and the files that hold the secrets; never a secret itself.

Belongs here: which files there are, and how the settings name them. Does not: reading them (`secret_files`), and giving
them to git (`https`, `ssh`).
"""

from dataclasses import dataclass
from pathlib import Path

# What people are told to correct.
PASSWORD_FILE = "credentials.passwordFile"  # noqa: S105 - the name of a setting, as are the others
TOKEN_FILE = "credentials.tokenFile"  # noqa: S105
SSH_KEY_FILE = "credentials.sshKeyFile"
SSH_PASSPHRASE_FILE = "credentials.sshPassphraseFile"  # noqa: S105
KNOWN_HOSTS_FILE = "credentials.knownHostsFile"
CA_FILE = "credentials.caFile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Names and paths as the settings give them; None or empty: not given. That they fit the URL is settled there."""

    username: str = ""
    password_file: Path | None = None
    token_file: Path | None = None
    ssh_key_file: Path | None = None
    ssh_passphrase_file: Path | None = None
    known_hosts_file: Path | None = None
    ca_file: Path | None = None
    proxy: str = ""

    def files(self) -> tuple[Path, ...]:
        """The files that are given, in one order: a change of one may mend what was refused."""
        every = (
            self.password_file,
            self.token_file,
            self.ssh_key_file,
            self.ssh_passphrase_file,
            self.known_hosts_file,
            self.ca_file,
        )
        return tuple(path for path in every if path is not None)


ANONYMOUS = Credentials()
