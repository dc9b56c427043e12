"""Whose words stand in git's standard error: git's, curl's and ssh's own, by which a fault is told, or the remote's.

Belongs here: telling them apart, by how a line begins and where it stands. Pure. Does not: what they mean (`sayings`).
A remote's words are shown as such. They tell a fault only where nothing depends on them but what is said of it.
"""

import re
from pathlib import Path
from typing import NamedTuple

# What git adds whatever has happened, the frame around ssh's warnings, and progress.
IDLE = re.compile(
    r"(?:fatal: )?(?:Could not read from remote repository|expected flush after|the remote end hung up upon initial)"
    r"|Please make sure you have|and the repository exists|@|\s*$|From "
    r"|(?:Enumerating|Counting|Compressing|Receiving|Unpacking|Indexing|Resolving|Total)\b"
)
# Complaints with which git quotes what it was sent, line ends and all.
_QUOTING = re.compile(r"fatal: (?:remote error: |(?:git[ -]|invalid|protocol|expected|unexpected|unknown|server)\b)")
_ENDING = re.compile(r"fatal: (?!cannot exec )")  # the program that askpass is says that before git does
_ERR = "fatal: remote error: "
# Git has nothing to say of a connection that ends but this: what else there is like a complaint came from the server.
_BROKEN = re.compile(
    r"^fatal: (?:Could not read from remote repository|the remote end hung up|early EOF)", re.MULTILINE
)
_OF_GIT = re.compile(r"(?:fatal|error|fetch-pack): ")
_LAST_OF_GIT = re.compile(f"{_BROKEN.pattern}|^fetch-pack: ")
_OF_SSH = re.compile(
    r"ssh: |ssh -F none .*not found$|kex_exchange_identification: |Connection (?:closed|reset|timed out)\b"
    r"|Unable to negotiate with |\S+@\S+: Permission denied \(|Received disconnect from |client_loop: "
    r"|Read from remote host |Host key verification failed\.$|No \S+ host key is known for |@ +WARNING: [A-Z ]+! +@$"
    r"|Timeout, server "
)
_LOAD_KEY = 'Load key "{}": '


class GitWords(NamedTuple):
    """Lines in the order in which they came: `own` ones of git, curl and ssh, and the remote's, without prefixes."""

    own: tuple[str, ...]
    remote: tuple[str, ...]

    def said(self) -> tuple[str, ...]:
        """What the remote says, also where git quotes the one on this machine, which is a git of ours."""
        return (*self.remote, *(line.removeprefix(_ERR) for line in self.own if line.startswith(_ERR)))


def parse_words(stderr: str, *, scheme: str, key: Path | None = None) -> GitWords:
    """Whose words these are. `scheme` is that of the URL, `key` the file of the one that ssh shows."""
    own, remote = _prefixed(stderr)
    if scheme == "file":
        return GitWords(tuple(own), tuple(remote))
    is_broken = scheme == "ssh" and _BROKEN.search(stderr) is not None
    own, quoted = _cut(own, goes_on=is_broken)
    if scheme != "ssh":
        return GitWords(tuple(own), tuple(remote + quoted))
    return _over_ssh(own, remote + quoted, is_broken=is_broken, key=key)


def _prefixed(stderr: str) -> tuple[list[str], list[str]]:
    """The lines without `remote:` before them, and those with it.

    A carriage return ends a line of progress, and may stand in the middle of what a remote says.
    """
    own: list[str] = []
    remote: list[str] = []
    for line in stderr.split("\n"):
        if line.startswith("remote:"):
            pieces = [piece.removeprefix("remote:").strip() for piece in line.split("\r")]
            remote += [piece for piece in pieces if not IDLE.match(piece)]
        else:
            own += [piece for piece in line.split("\r") if piece]
    return own, remote


def _cut(lines: list[str], *, goes_on: bool) -> tuple[list[str], list[str]]:
    """The lines to the first with which git ends, and what it quotes there. Whatever follows may belong to that.

    `goes_on`: a line like that may be the server's, with ours after it.
    """
    for number, line in enumerate(lines):
        if _QUOTING.match(line):
            rest = [line.removeprefix(_ERR).removeprefix("fatal: "), *lines[number + 1 :]]
            return lines[:number], [text for text in rest if not IDLE.match(text)]
        if _ENDING.match(line) and not goes_on:
            return lines[: number + 1], []
    return lines, []


def _over_ssh(lines: list[str], remote: list[str], *, is_broken: bool, key: Path | None) -> GitWords:
    """The server's own standard error has no prefix."""
    load_key = _LOAD_KEY.format(key)
    of_git = _LAST_OF_GIT if is_broken else _OF_GIT
    own = [
        line
        for line in lines
        if of_git.match(line) or _OF_SSH.match(line) or (key is not None and line.startswith(load_key))
    ]
    others = [line for line in lines if line not in own and not IDLE.match(line)]
    return GitWords(tuple(own), tuple(others + remote))
