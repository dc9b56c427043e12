"""Which settings of one repository fit each other: what is followed, and the credentials its URL can use.

Judged on plain values, so that these mistakes show beside those of shape. Pure.
"""

from collections.abc import Iterator, Mapping

from reconciler.model.values import Pointer, Value
from reconciler.settings import addresses

FOLLOWED = ("branch", "tag", "commit", "ref")
HTTPS = ("username", "passwordFile", "tokenFile", "caFile", "proxy")
SSH = ("sshKeyFile", "sshPassphraseFile", "knownHostsFile")
NEEDED = ("sshKeyFile", "knownHostsFile")
# ssh expands `$` in its options and has no way to quote it, and reads `"` and a backslash as its own.
ODD_FOR_SSH = frozenset('"\\$')


def repository_mistakes(repository: Mapping[str, Value]) -> Iterator[tuple[Pointer, str]]:
    """What contradicts, as (the key's pointer in the repository, the sentence)."""
    yield from _followed(repository)
    scheme = _scheme(repository.get("url"))
    if scheme is None:
        return  # a mistake of shape, shown as such
    section = repository.get("credentials")
    given = {key: value for key, value in section.items() if _is_given(value)} if isinstance(section, dict) else {}
    for key, sentence in (*_misplaced(given, scheme), *_combined(given)):
        yield ("credentials", key), sentence
    lacking = [f"credentials.{key}" for key in NEEDED if key not in given]
    if scheme == "ssh" and lacking:
        yield ("url",), f"needs {' and '.join(lacking)}, since a host is trusted by its key alone"


def _followed(repository: Mapping[str, Value]) -> Iterator[tuple[Pointer, str]]:
    first, *more = [key for key in FOLLOWED if _is_given(repository.get(key))] or [""]
    for key in more:
        yield (key,), f"must not be given beside `{first}`: a repository follows one of branch, tag, commit and ref"


def _misplaced(given: Mapping[str, Value], scheme: str) -> Iterator[tuple[str, str]]:
    for key in HTTPS:
        if key in given and scheme != "https":
            yield key, f"is for https URLs, and the URL is {_told(scheme)}; leave it out, or change `url`"
    for key in SSH:
        if key in given and scheme != "ssh":
            yield key, f"is for ssh URLs, and the URL is {_told(scheme)}; leave it out, or change `url`"


def _combined(given: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    if "passwordFile" in given and "tokenFile" in given:
        yield "tokenFile", "must not be given beside passwordFile; leave one of them out"
    if "passwordFile" in given and "username" not in given:
        yield "passwordFile", "needs username too"
    if "username" in given and not {"passwordFile", "tokenFile"} & given.keys():
        yield "username", "needs passwordFile or tokenFile too"
    for key in SSH:
        if ODD_FOR_SSH & set(str(given.get(key, ""))):
            yield key, 'must be a path without `$`, `"` and backslashes, which ssh reads as its own'


def _is_given(value: Value) -> bool:
    return value not in (None, "")


def _scheme(url: Value) -> str | None:
    """The scheme of a URL; `file` for a path, None for what is no URL that a repository may have."""
    try:
        checked = addresses.repository_url(url) if isinstance(url, str) else ""
    except ValueError:
        return None
    return "file" if checked.startswith("/") else checked.partition("://")[0].lower() or None


def _told(scheme: str) -> str:
    return {"file": "a local one", "git": "a git one"}.get(scheme, f"an {scheme} one")
