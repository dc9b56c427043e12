"""The types of the settings that only a repository has: what is followed, which of its files count, and its URL.

The types that other sections have too are in `scalars`.
"""

import re
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Strict

from reconciler.model import gitignore
from reconciler.settings import addresses, ref_names
from reconciler.settings.addresses import has_control
from reconciler.settings.allowing import Allowed, refusal

MAX_GLOBS = 100
MAX_GLOB_CHARACTERS = 1024
MAX_USER_NAME_CHARACTERS = 255


def _short(text: str | None) -> str | None:
    """A branch or tag by its short name: there could be one called `refs/heads/main` or `HEAD`, and nobody means it."""
    if text and (text == "HEAD" or text.startswith("refs/")):
        raise refusal("must be the short name, such as main or v1.2; use `ref` for a full one, and nothing for HEAD")
    return _branch(text)


def _branch(text: str | None) -> str | None:
    if not text:
        return None
    try:
        ref_names.check_ref_name(text)
    except ValueError:
        raise ValueError from None  # the sentence is that of the type, with what is allowed
    return text


def _commit(text: str | None) -> str | None:
    """The whole id of a commit, SHA-1: a short one may come to mean another."""
    if not text:
        return None
    if not re.fullmatch(r"[0-9a-f]{40}", text):
        raise ValueError
    return text


def _full_ref(text: str | None) -> str | None:
    if text and not text.startswith("refs/"):
        raise ValueError
    return _branch(text)


def _globs(patterns: tuple[str, ...]) -> tuple[str, ...]:
    if len(patterns) > MAX_GLOBS:
        raise ValueError
    return patterns


def _glob(text: str) -> str:
    """One line of a `.gitignore`; what could match nothing is a mistake, and so is `!`, which undoes another."""
    if len(text) > MAX_GLOB_CHARACTERS or has_control(text) or text.startswith("!"):
        raise ValueError
    parts = text.strip("/").split("/")
    if gitignore.parse(text) is None or any(part in ("", ".", "..") for part in parts):
        raise ValueError
    return text


def _user_name(text: str) -> str:
    """Without a colon, which ends the name in basic authentication (RFC 7617, section 2)."""
    if len(text) > MAX_USER_NAME_CHARACTERS or ":" in text or has_control(text):
        raise ValueError
    return text


def _folder(text: str) -> str:
    """A folder in the repository: no leading `/`, no `..`; `.` and a trailing `/` mean nothing."""
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or has_control(text):
        raise ValueError
    return "" if path == PurePosixPath() else str(path)


Branch = Annotated[str | None, Strict(), AfterValidator(_short), Allowed('a branch name such as main, or "" for HEAD')]
Tag = Annotated[str | None, Strict(), AfterValidator(_short), Allowed('a tag name such as v1.2, or "" for none')]
Commit = Annotated[
    str | None, Strict(), AfterValidator(_commit), Allowed('the 40 hexadecimal digits of a commit, or "" for none')
]
FullRef = Annotated[
    str | None,
    Strict(),
    AfterValidator(_full_ref),
    Allowed('the full name of a ref such as refs/pull/7/head, or "" for none'),
]
Glob = Annotated[
    str,
    Strict(),
    AfterValidator(_glob),
    Allowed(
        f"a pattern such as teams/**/*.yaml of 1 to {MAX_GLOB_CHARACTERS} characters that can match, without `..`, "
        "not beginning with `!` or `#`"
    ),
]
Globs = Annotated[
    tuple[Glob, ...],
    AfterValidator(_globs),
    Allowed(f"a list of at most {MAX_GLOBS} patterns such as teams/**/*.yaml"),
]
UserName = Annotated[
    str,
    Strict(),
    AfterValidator(_user_name),
    Allowed(f"a name of at most {MAX_USER_NAME_CHARACTERS} characters without a colon"),
]
Folder = Annotated[
    str, Strict(), AfterValidator(_folder), Allowed('a folder in the repository such as teams/web, without `..`, or ""')
]
RepositoryURL = Annotated[
    str, Strict(), AfterValidator(addresses.repository_url), Allowed("a local path or an https, ssh or file URL")
]
