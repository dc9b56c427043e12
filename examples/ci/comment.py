"""Keeps one comment with the plan at a pull request: made once, edited after each push, never deleted.

    COMMENT_TOKEN=... python3 -I comment.py github plan.md        # or gitlab, or gitea

The file is what `reconciler plan --output markdown` printed; its first line, which nobody sees, marks the comment.
Edited is the comment that begins with that line and that the token's own user wrote; where the token may not ask who
that is, one that a program wrote. A person who copies the line is left alone.

Where the token may not comment, as for pull requests from forks, that is a warning and no failure: the plan is in the
job's log all the same. Everything else that goes wrong ends it with 1. It needs Python's standard library alone.
"""

import argparse
import http.client
import json
import os
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

ATTEMPTS = 5
SECONDS_OVERALL = 180
SECONDS_OF_SILENCE = 20  # of the forge, in the middle of a request
SECONDS_BETWEEN = 60  # at most, whatever Retry-After says
PAGES = 50
PER_PAGE = 100  # what GitHub and GitLab give at most
ANSWER_BYTES = 128 * 1024 * 1024  # a page of comments as long as GitLab lets them be
BODY_BYTES = 4 * 1024 * 1024

MARKER = re.compile(r"<!-- reconciler-plan: [^\n]{1,200} -->")
BUSY = {429, 500, 502, 503, 504}
MAY_NOT = {401, 403, 404}  # forges answer 404 for what a token may not even see


class Failed(Exception):
    """It cannot be done; the sentence says why, and never holds what a server wrote, or the token."""


class MayNot(Exception):
    """The token may not comment here."""


class Busy(Exception):
    """The forge asks for patience, or does not answer; `after` is how many seconds it wants, if it said so."""

    def __init__(self, what: str, after: float | None = None) -> None:
        super().__init__(what)
        self.after = after


@dataclass(frozen=True)
class Forge:
    """How one forge differs from the others. `writer` is the field of a comment with its author, `known_by` the field
    of a user by which two are the same. A user whose field `program` matches is no person: one such wrote the comment
    where the token may not ask whose it is.
    """

    me: tuple[str, str, dict[str, Any] | None]  # method, address, body
    comments: str
    one: str
    order: Mapping[str, str]
    editing: str
    writer: str
    known_by: str
    headers: Mapping[str, str]
    program: tuple[str, str]  # the field, and a regular expression


def github(environment: Mapping[str, str], token: str) -> Forge:
    """GitHub. The token of a job may not ask `GET /user`, but GraphQL tells it who it is."""
    repository = f"{_address(environment, 'GITHUB_API_URL')}/repos/{_repository(environment)}"
    who = {"query": "query { viewer { login } }"}
    return Forge(
        me=("POST", _address(environment, "GITHUB_GRAPHQL_URL"), who),
        comments=f"{repository}/issues/{_number(environment, 'PULL_REQUEST')}/comments",
        one=f"{repository}/issues/comments/",
        order={},  # by id, the oldest first
        editing="PATCH",
        writer="user",
        known_by="login",
        headers={"Authorization": f"Bearer {token}", "X-GitHub-Api-Version": "2022-11-28"},
        program=("type", "Bot"),
    )


def gitea(environment: Mapping[str, str], token: str) -> Forge:
    """Gitea and Forgejo, which name their variables as GitHub does."""
    api = _address(environment, "GITHUB_API_URL")
    repository = f"{api}/repos/{_repository(environment)}"
    return Forge(
        me=("GET", f"{api}/user", None),
        comments=f"{repository}/issues/{_number(environment, 'PULL_REQUEST')}/comments",
        one=f"{repository}/issues/comments/",
        order={},
        editing="PATCH",
        writer="user",
        known_by="id",
        headers={"Authorization": f"token {token}"},
        program=("id", "-2"),  # the user of every job, and nobody else's id
    )


def gitlab(environment: Mapping[str, str], token: str) -> Forge:
    """GitLab. A job's own token may read notes and not write them, so this one is a project access token."""
    api = _address(environment, "CI_API_V4_URL")
    project = f"{api}/projects/{_number(environment, 'CI_MERGE_REQUEST_PROJECT_ID')}"
    notes = f"{project}/merge_requests/{_number(environment, 'CI_MERGE_REQUEST_IID')}/notes"
    return Forge(
        me=("GET", f"{api}/user", None),
        comments=notes,
        one=f"{notes}/",
        order={"sort": "asc", "order_by": "created_at"},
        editing="PUT",
        writer="author",
        known_by="id",
        headers={"PRIVATE-TOKEN": token},
        program=("username", r"(project|group)_[0-9]+_bot(_\w+)?"),  # whom GitLab makes for an access token
    )


FORGES = {"github": github, "gitlab": gitlab, "gitea": gitea}


class _Staying(urllib.request.HTTPRedirectHandler):
    """Follows nothing: the token would go wherever an answer points."""

    def redirect_request(self, *_: object) -> None:
        return None


class Talk:
    """Requests to one forge, all within one time."""

    def __init__(self, headers: Mapping[str, str], *, until: float) -> None:
        self._headers = {"Accept": "application/json", "User-Agent": "reconciler-plan", **headers}
        self._until = until
        self._opener = urllib.request.build_opener(_Staying)

    def ask(self, method: str, address: str, body: object = None) -> tuple[Any, bool]:
        """The answer's JSON, and whether there is a next page. Raises Busy, MayNot, Failed."""
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, **({} if data is None else {"Content-Type": "application/json"})}
        request = urllib.request.Request(address, data=data, headers=headers, method=method)  # noqa: S310 - see _address
        try:
            with self._opener.open(request, timeout=max(0.1, min(SECONDS_OF_SILENCE, self.left()))) as answer:
                return json.loads(self._read(answer)), 'rel="next"' in answer.headers.get("Link", "")
        except urllib.error.HTTPError as problem:
            problem.close()
            raise _refusal(problem) from None
        except (OSError, http.client.HTTPException):
            raise Busy("does not answer") from None
        except (ValueError, RecursionError):
            raise Failed("the forge answered something else than JSON; look at the address of its API") from None

    def left(self) -> float:
        """How many seconds there still are."""
        return self._until - time.monotonic()

    def _read(self, answer: http.client.HTTPResponse) -> bytes:
        found = bytearray()
        while chunk := answer.read1(1 << 16):
            found += chunk
            if len(found) > ANSWER_BYTES:
                raise Failed(f"the forge answered more than {ANSWER_BYTES >> 20} MiB")
            if self.left() < 0:
                raise Busy("does not finish its answer")
        return bytes(found)


def _refusal(problem: urllib.error.HTTPError) -> Exception:
    after = problem.headers.get("Retry-After")
    limited = after is not None or problem.headers.get("X-RateLimit-Remaining") == "0"
    if problem.code in BUSY or (problem.code == http.client.FORBIDDEN and limited):  # GitHub's rate limits are a 403
        return Busy(f"answered {problem.code}", seconds(after))
    if problem.code in MAY_NOT:
        return MayNot(f"it answered {problem.code}")
    return Failed(
        f"the forge answered {problem.code}; look at the address of its API, and whether it takes this comment"
    )


def seconds(after: str | None) -> float | None:
    """Return what Retry-After says: a number of seconds, or a date."""
    if after is None:
        return None
    if after.strip().isdecimal():
        return float(after)
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except ValueError:
        return None


def keep(forge: Forge, body: str, *, until: float) -> str:
    """Make or edit the comment, again while the forge is busy; `until` is a moment of the monotonic clock.

    Each attempt looks for the comment anew: one whose making was not answered may have been made. Says what was done.
    """
    talk = Talk(forge.headers, until=until)
    for attempt in range(ATTEMPTS):
        try:
            return _keep(talk, forge, body)
        except Busy as busy:
            wait = pause(attempt, busy.after)
            if attempt + 1 == ATTEMPTS or wait > talk.left():
                often = f", {attempt + 1} times" if attempt else ""
                raise Failed(f"the forge {busy}{often}; run the job again") from None
            time.sleep(wait)
    raise AssertionError("the last attempt returns or raises")


def pause(attempt: int, after: float | None) -> float:
    """How many seconds to wait after the attempt of this number, from 0, when the forge wants `after`."""
    return min(SECONDS_BETWEEN, 2.0**attempt if after is None else after)


def _keep(talk: Talk, forge: Forge, body: str) -> str:
    identity = _found(talk, forge, me=_me(talk, forge), marker=body.partition("\n")[0])
    if identity is None:
        talk.ask("POST", forge.comments, {"body": body})
        return "The plan is in a new comment."
    talk.ask(forge.editing, f"{forge.one}{identity}", {"body": body})
    return "The plan is in the comment that was there."


def _me(talk: Talk, forge: Forge) -> object:
    """By what the token's own user is known; None where the token may not ask that."""
    try:
        answer, _ = talk.ask(*forge.me)
    except MayNot:
        return None
    user = (answer.get("data") or {}).get("viewer") if isinstance(answer, dict) and "data" in answer else answer
    if not isinstance(user, dict) or forge.known_by not in user:
        raise Failed("the forge does not tell whose the token is, so no comment can be known as its own")
    return user[forge.known_by]


def _found(talk: Talk, forge: Forge, *, me: object, marker: str) -> int | None:
    """The id of the oldest comment of our own with our marker."""
    for comment in _comments(talk, forge):
        writer, text = comment.get(forge.writer), comment.get("body")
        if _is_ours(forge, writer, me) and isinstance(text, str) and text.partition("\n")[0].rstrip("\r") == marker:
            identity = comment.get("id")
            return identity if isinstance(identity, int) else None
    return None


def _is_ours(forge: Forge, writer: object, me: object) -> bool:
    if not isinstance(writer, dict):
        return False
    if me is not None:
        return bool(writer.get(forge.known_by) == me)
    field, pattern = forge.program
    return re.fullmatch(pattern, str(writer.get(field))) is not None


def _comments(talk: Talk, forge: Forge) -> Iterator[dict[str, Any]]:
    # The number of the page counts, not the address in `Link`: behind a proxy that can be of somewhere else.
    for page in range(1, PAGES + 1):
        query = urllib.parse.urlencode({**forge.order, "per_page": PER_PAGE, "page": page})
        found, more = talk.ask("GET", f"{forge.comments}?{query}")
        if not isinstance(found, list):
            raise Failed("the forge answered something else than comments; look at the address of its API")
        yield from (one for one in found if isinstance(one, dict))
        if not more:
            return
    raise Failed(f"there are more than {PAGES * PER_PAGE} comments, and none of the first is the plan")


def text_of(path: Path, *, quick_actions: bool) -> str:
    """The comment's text. With `quick_actions`, as GitLab has them, no line may begin with one."""
    with path.open("rb") as file:
        data = file.read(BODY_BYTES + 1)
    if len(data) > BODY_BYTES:
        raise Failed(f"{path} has more than {BODY_BYTES >> 20} MiB; have `reconciler plan` cut it with --limit")
    text = data.decode("utf-8", "replace")
    if not MARKER.fullmatch(text.partition("\n")[0]):
        raise Failed(f"{path} is no plan in Markdown; make it with `reconciler plan --output markdown`")
    return re.sub(r"^/", " /", text, flags=re.MULTILINE) if quick_actions else text


def _address(environment: Mapping[str, str], name: str) -> str:
    address = environment.get(name, "").rstrip("/")
    if not re.fullmatch(r"https?://[^\s?#@]+", address):
        raise Failed(f"{name} is not the address of an API; the forge's runner sets it")
    return address


def _repository(environment: Mapping[str, str]) -> str:
    name = environment.get("GITHUB_REPOSITORY", "")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name, re.ASCII):
        raise Failed("GITHUB_REPOSITORY is not owner/name; the forge's runner sets it")
    return name


def _number(environment: Mapping[str, str], name: str) -> str:
    number = environment.get(name, "")
    if not re.fullmatch(r"[0-9]{1,18}", number):
        raise Failed(f"{name} is not a number; this is for the pipelines of pull requests alone")
    return number


def _token(environment: Mapping[str, str]) -> str:
    token = environment.get("COMMENT_TOKEN", "").strip()
    if not token:
        raise MayNot("COMMENT_TOKEN is empty, as forks have it")
    if not re.fullmatch(r"[!-~]+", token):
        raise Failed("COMMENT_TOKEN is not a token")
    return token


def main(arguments: list[str], environment: Mapping[str, str]) -> int:
    """Comment; the exit code."""
    parser = argparse.ArgumentParser(description="Keeps one comment with the plan at a pull request.")
    parser.add_argument("forge", choices=FORGES)
    parser.add_argument("file", type=Path, help="what `reconciler plan --output markdown` printed")
    given = parser.parse_args(arguments)
    try:
        body = text_of(given.file, quick_actions=given.forge == "gitlab")
        forge = FORGES[given.forge](environment, _token(environment))
        print(keep(forge, body, until=time.monotonic() + SECONDS_OVERALL))
    except MayNot as problem:
        warning = f"the plan is not in a comment: the token may not write one here ({problem}); the job's log has it"
        print(f"::warning::{warning}" if environment.get("GITHUB_ACTIONS") == "true" else f"warning: {warning}")
    except Failed as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except OSError as problem:
        print(f"error: {given.file}: {problem.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
