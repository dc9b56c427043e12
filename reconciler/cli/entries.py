"""The repositories of a settings file that follow the remote of a checkout, for `plan` and `validate`."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from reconciler.model.errors import Refused
from reconciler.settings import loading
from reconciler.settings.models import Settings
from reconciler.settings.repositories import Repository

_SCP = re.compile(r"(?:[^@/:]+@)?([^@/:]+|\[[^]/]+\]):(.*)", re.DOTALL)  # user@host:path, as git takes it


@dataclass(frozen=True, slots=True)
class ChosenEntries:
    """`entries` are the chosen repositories. `beside` are others that fill the same projects from the same remote: they
    are judged together. `notes` name those that are left out.
    """

    entries: tuple[Repository, ...]
    beside: tuple[Repository, ...]
    notes: tuple[str, ...]


def load_settings(config: Path) -> Settings:
    """Return the settings of a file, of which only repositories and resources matter. Raises SettingsError."""
    # Sign-in is overridden: a provider's secret is in the environment of the service only.
    return loading.load(config=config, environment={}, overrides={"auth.type": "local"}).settings


def choose_entries(
    repositories: Sequence[Repository],
    *,
    config: Path,
    names: Sequence[str] = (),
    remotes: Collection[str],
    branch: str | None,
) -> ChosenEntries:
    """Choose by name, otherwise by the remotes of a checkout and the branch to merge into.

    If no entry has a remote of the checkout, all entries are chosen, provided that they have the same one. Raises
    Refused.
    """
    known = {one.name: one for one in repositories}
    unknown = [name for name in names if name not in known]
    if unknown or not known:
        raise Refused(f"{config} has no repository {', '.join(unknown) or 'at all'}; it has: {', '.join(known) or '-'}")
    addresses = {address_of(one) for one in remotes}
    addresses = addresses.intersection(address_of(one.url) for one in repositories)
    if names:
        addresses = {address_of(known[name].url) for name in names}
    elif not addresses:
        addresses = {address_of(one.url) for one in repositories}
        if len(addresses) > 1:
            raise Refused(f"{config} has several remotes; choose with --repository: {', '.join(known)}")
    branches = None if branch is None else {None, branch, *(_followed(known[name]) for name in names)}
    notes = {one.name: note for one in repositories for note in _why_not(one, addresses, branches)}
    if names:
        entries = [known[name] for name in dict.fromkeys(names)]
        projects = {one.project for one in entries}
        beside = [one for one in repositories if one.project in projects and one.name not in (*names, *notes)]
        return ChosenEntries(tuple(entries), tuple(beside), ())
    found = tuple(one for one in repositories if one.name not in notes)
    if not found:
        raise Refused(f"no repository of {config} follows the branch {branch}; choose with --repository or --base")
    return ChosenEntries(found, (), tuple(notes.values()))


def _followed(one: Repository) -> str | None:
    return one.branch or one.tag or one.commit or one.ref


def _why_not(
    one: Repository, addresses: Collection[tuple[str, str]], branches: Collection[str | None] | None
) -> Iterator[str]:
    follows = _followed(one)
    if address_of(one.url) not in addresses:
        yield f"The repository {one.name} has another remote and is left out."
    elif branches is not None and follows not in branches:
        yield f"The repository {one.name} follows {follows} and is left out."


def address_of(url: str) -> tuple[str, str]:
    """Return host (empty for a local path) and path of a remote: the same for its https and its ssh address."""
    if "://" in url:
        parts = urlsplit(url)
        host, path = ("" if parts.scheme == "file" else parts.hostname or ""), unquote(parts.path)
    else:
        match = None if url.startswith(("/", ".")) else _SCP.fullmatch(url)
        host, path = ("", url) if match is None else (match[1], match[2])
    path = path.strip("/").removesuffix(".git").rstrip("/")
    return host.casefold(), path.casefold() if host else path
