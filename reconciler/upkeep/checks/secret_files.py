"""Whether the files that the settings name can be read, and their secrets by nobody else."""

import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reconciler.model.text import counted
from reconciler.settings import bounded_io
from reconciler.settings.models import Settings
from reconciler.upkeep.findings import DoctorFinding, error, ok, warning

NAME = "files"
MOST_BYTES = 4 << 20
OTHERS_READ, OTHERS_WRITE = 0o004, 0o022
OTHERS_ENTER = 0o001
MOST_ENTRIES = 1000


class NamedFile(NamedTuple):
    """A file that a setting names, and whether it holds a secret."""

    setting: str
    path: Path
    is_secret: bool


class SecretFileFacts(NamedTuple):
    """One of them: what is wrong with reading it, nothing when it can be read, and its mode."""

    named: NamedFile
    wrong: str
    mode: int


def named_files(settings: Settings) -> list[NamedFile]:
    """All of them, in one order."""
    return [each for each in _named(settings) if each is not None]


def gather_secret_files(named: NamedFile) -> SecretFileFacts:
    """Look at one; nothing of what is in it stays."""
    try:
        bounded_io.read_file(named.path, limit=MOST_BYTES)
        return SecretFileFacts(named, "", stat.S_IMODE(named.path.stat().st_mode))
    except FileNotFoundError:
        return SecretFileFacts(named, "does not exist", 0)
    except OSError as problem:
        return SecretFileFacts(named, f"cannot be read ({os.strerror(problem.errno or 0)})", 0)
    except bounded_io.NotAFile:
        return SecretFileFacts(named, "is not a regular file", 0)
    except bounded_io.FileTooLarge:
        return SecretFileFacts(named, f"has more than {MOST_BYTES >> 20} MiB", 0)


def judge_secret_files(facts: list[SecretFileFacts]) -> list[DoctorFinding]:
    """What is wrong with them."""
    if not facts:
        return [ok(NAME, "the settings name none")]
    wrong = [finding for each in facts for finding in _of_one(each)]
    return wrong or [ok(NAME, f"{counted(len(facts), 'file')} of the settings can be read, and no secret by everybody")]


def secrets_folder(path: Path | None) -> list[DoctorFinding]:
    """Those below `secrets.directory`, of which resources name some."""
    if path is None:
        return []
    if not path.is_dir():
        told = f"{path}, the folder of `secrets.directory`, is no folder"
        return [error(NAME, told, "make it, or correct `secrets.directory`")]
    found = list(itertools.islice(_read_by_everybody(path), MOST_ENTRIES))
    if not found:
        return []
    told = f"{counted(len(found), 'file')} below {path}, the folder of `secrets.directory`, may be read by everybody"
    todo = f"`chmod -R o-rwx {path}`, and replace the secrets if anybody else uses this machine"
    return [error(NAME, f"{told}, as {found[0]}", todo)]


def settings_file(path: Path | None, *, has_secret: bool) -> list[DoctorFinding]:
    """The settings file itself, in which a client's secret may stand."""
    if path is None or not has_secret:
        return []
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & OTHERS_READ:
        return []
    told = f"{path} holds `auth.oidc.oauth2ClientSecret`, and everybody may read it (mode {mode:04o})"
    todo = "take it out and set SERVICE_OIDC_OAUTH2_CLIENT_SECRET, or let the service alone read the file"
    return [error(NAME, told, todo)]


def _read_by_everybody(folder: Path) -> Iterator[Path]:
    """In one order. Who may not enter a folder reads nothing of what is in it, whatever the modes there are."""
    if not folder.stat().st_mode & OTHERS_ENTER:
        return
    for path in sorted(folder.iterdir()):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            yield from _read_by_everybody(path)
        elif stat.S_ISREG(mode) and mode & OTHERS_READ:
            yield path


def _of_one(facts: SecretFileFacts) -> Iterator[DoctorFinding]:
    path, setting = facts.named.path, facts.named.setting
    if facts.wrong:
        todo = f"mend that, or correct `{setting}`"
        yield error(NAME, f"{path}, the file of `{setting}`, {facts.wrong}", todo)
    if facts.named.is_secret and facts.mode & OTHERS_READ:
        told = f"{path}, the secret of `{setting}`, may be read by everybody (mode {facts.mode:04o})"
        yield error(NAME, told, f"`chmod o-rwx {path}`, and replace the secret if anybody else uses this machine")
    if facts.mode & OTHERS_WRITE:
        told = f"{path}, the file of `{setting}`, may be written by others than its owner (mode {facts.mode:04o})"
        yield warning(NAME, told, f"`chmod go-w {path}`")


def _named(settings: Settings) -> Iterator[NamedFile | None]:
    yield _one("tls.certFile", settings.tls.cert_file, is_secret=False)
    yield _one("tls.keyFile", settings.tls.key_file, is_secret=True)
    yield _one("outbound.caFile", settings.outbound.ca_file, is_secret=False)
    for number, repository in enumerate(settings.repositories):
        at, given = f"repositories[{number}]", repository.credentials
        yield _one(f"{at}.credentials.passwordFile", given.password_file, is_secret=True)
        yield _one(f"{at}.credentials.tokenFile", given.token_file, is_secret=True)
        yield _one(f"{at}.credentials.sshKeyFile", given.ssh_key_file, is_secret=True)
        yield _one(f"{at}.credentials.sshPassphraseFile", given.ssh_passphrase_file, is_secret=True)
        yield _one(f"{at}.credentials.knownHostsFile", given.known_hosts_file, is_secret=False)
        yield _one(f"{at}.credentials.caFile", given.ca_file, is_secret=False)
        yield _one(f"{at}.verify.signersFile", repository.verify.signers_file, is_secret=False)
        yield _one(f"{at}.hook.secretFile", repository.hook.secret_file, is_secret=True)
    for number, alert in enumerate(settings.alerts):
        yield _one(f"alerts[{number}].urlFile", alert.url_file, is_secret=True)  # chats take a URL for a password
        yield _one(f"alerts[{number}].secretFile", alert.secret_file, is_secret=True)


def _one(setting: str, path: Path | None, *, is_secret: bool) -> NamedFile | None:
    return None if path is None else NamedFile(setting, path, is_secret)
