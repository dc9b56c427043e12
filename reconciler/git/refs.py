"""Refs that are followed or proposed."""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from reconciler.model.errors import Refused
from reconciler.model.names import check_ref_name

# What of a remote is followed: a branch, a tag, a commit, any other ref, or what the remote's HEAD names.

SHOWN_CHARACTERS = 200  # of a text from settings in a message
BRANCHES = "refs/heads/"
TAGS = "refs/tags/"
PRIVATE = "refs/reconciler/"  # where the mirror keeps what is followed
PEELED = "^{}"  # behind a name: what the tag leads to

OBJECT_ID = re.compile(r"[0-9a-f]{40}")


class RefKind(StrEnum):
    """The kind of a followed ref, by the name of its setting; HEAD when none is given."""

    HEAD = "head"
    BRANCH = "branch"
    TAG = "tag"
    COMMIT = "commit"
    REF = "ref"


class RefHead(NamedTuple):
    """The commit that is followed now. `ref` is where it was found, in full: a ref, `HEAD`, or the commit's id.

    `tag` is the annotated tag that leads to it, which may be signed; '' for none.
    """

    ref: str
    commit: str
    tag: str = ""

    def is_held_as(self, held: "RefHead | None") -> bool:
        """Return True if what a mirror holds is this, wherever it was found."""
        return held is not None and (held.commit, held.tag) == (self.commit, self.tag)

    @property
    def branch(self) -> str | None:
        """The branch's short name; None for what is no branch."""
        return self.ref.removeprefix(BRANCHES) if self.ref.startswith(BRANCHES) else None


class Listing(NamedTuple):
    """The refs of a remote: object ids by ref, tags peeled under `<ref>^{}` too, and targets of symbolic refs."""

    refs: dict[str, str]
    symbolic: dict[str, str]


def check_name(name: str) -> None:
    """Raise Refused unless Git allows the name of a branch, tag or ref and it cannot be taken for an option."""
    try:
        check_ref_name(name)
    except ValueError as why:
        raise Refused(f"{shown_name(name)} {why}") from None


def _is_name(name: str) -> bool:
    try:
        check_name(name)
    except Refused:
        return False
    return True


def shown_name(text: str) -> str:
    """Return text from settings, fit to stand in a message."""
    return repr(text[:SHOWN_CHARACTERS])


@dataclass(frozen=True, slots=True, order=True)
class Followed:
    """One thing that is followed. Raises Refused for a name that Git forbids or would take for an option."""

    kind: RefKind
    name: str = "HEAD"

    def __post_init__(self) -> None:
        if self.kind is RefKind.COMMIT and not OBJECT_ID.fullmatch(self.name):
            raise Refused(f"{shown_name(self.name)} is not the id of a commit; it has 40 hexadecimal digits")
        if self.kind is RefKind.REF and not self.name.startswith("refs/"):
            raise Refused(f"{shown_name(self.name)} is not the full name of a ref; it begins with refs/")
        check_name(self.name)

    @property
    def full(self) -> str:
        """Its full name, which no other thing has."""
        return {RefKind.BRANCH: BRANCHES, RefKind.TAG: TAGS}.get(self.kind, "") + self.name

    @property
    def is_fixed(self) -> bool:
        """Return True if it never moves, so that a remote need not be asked where it is."""
        return self.kind is RefKind.COMMIT

    @property
    def private_ref(self) -> str:
        """Return where the mirror keeps it. A digest, so that `a` can become `a/b` and no name meets another."""
        return PRIVATE + hashlib.sha256(self.full.encode()).hexdigest()[:40]

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return what `git ls-remote` is asked: the name, and what it leads to should it be an annotated tag."""
        return self.full, self.full + PEELED

    def found(self, listing: Listing) -> RefHead | None:
        """Return where it is by a remote's answer; None when the remote does not have it."""
        if self.is_fixed:
            return RefHead(self.full, self.name)
        found = listing.refs.get(self.full)
        if found is None:
            return None
        ref = _named(listing.symbolic.get("HEAD", "")) if self.kind is RefKind.HEAD else self.full
        commit = listing.refs.get(self.full + PEELED)
        return RefHead(ref, found) if commit is None else RefHead(ref, commit, tag=found)

    def refspec(self, head: RefHead) -> str:
        """Return what a fetch brings, and where it goes; forced, since branches are rewound and tags moved."""
        return f"+{head.ref}:{self.private_ref}"

    @property
    def told(self) -> str:
        """As a sentence names it: `the branch main`."""
        return "the HEAD" if self.kind is RefKind.HEAD else f"the {self.kind.value} {self.name}"

    @property
    def setting(self) -> str:
        """The setting to change when it is not there."""
        return RefKind.BRANCH.value if self.kind is RefKind.HEAD else self.kind.value


HEAD = Followed(RefKind.HEAD)


def following(
    *, branch: str | None = None, tag: str | None = None, commit: str | None = None, ref: str | None = None
) -> Followed:
    """Return what the settings of one repository say, of which at most one is given."""
    given = {RefKind.BRANCH: branch, RefKind.TAG: tag, RefKind.COMMIT: commit, RefKind.REF: ref}
    for kind, name in given.items():
        if name is not None:
            return Followed(kind, name)
    return HEAD


def parse_listing(listing: bytes) -> Listing:
    """Return what `git ls-remote --symref` writes."""
    found = Listing({}, {})
    for line in listing.decode("utf-8", "surrogateescape").split("\n"):  # splitlines() also splits inside names
        value, _, name = line.partition("\t")
        if value.startswith("ref: "):
            found.symbolic[name] = value.removeprefix("ref: ")
        elif name:
            found.refs[name] = value
    return found


def _named(target: str) -> str:
    """Return the branch's ref that the remote's HEAD names, or HEAD itself when it is none that may be given to git."""
    return target if target.startswith(BRANCHES) and _is_name(target) else "HEAD"


# What may be proposed: the names that a caller may give, and which of them a commit is the tip of. Pure.

PROPOSABLE_HEAD = "HEAD"

# A star at the end stands for one part of a name or more, elsewhere for one part. What a forge keeps beside these is
# not for everybody who may read the repository: notes, commits that a force-push removed, its own bookkeeping.
PATTERNS = (
    "refs/heads/*",
    "refs/tags/*",
    "refs/pull/*/head",
    "refs/pull/*/merge",
    "refs/merge-requests/*/head",
    "refs/merge-requests/*/merge",
)

_ALLOWED = tuple(
    re.compile(re.escape(pattern).replace(r"\*", ".+" if pattern.endswith("*") else "[^/]+")) for pattern in PATTERNS
)


class ProposalNotFound(Refused):
    """There is nothing under this name, or nothing that may be proposed: which of the two, nobody is told."""


def is_allowed_proposal(name: str) -> bool:
    """Return True if the full name of a ref may be proposed."""
    return any(pattern.fullmatch(name) for pattern in _ALLOWED)


def wanted_refs(text: str, *, follows: Followed, url: str) -> Followed:
    """Return what a caller names: a ref in full, a commit by its id, or what the repository follows anyway.

    Raises Refused for what is no such name, NotFound for a ref that may not be proposed or that no remote can have.
    """
    if text == follows.full:
        return follows
    if OBJECT_ID.fullmatch(text):
        return Followed(RefKind.COMMIT, text)
    if not text.startswith("refs/") and text != PROPOSABLE_HEAD:
        check_name(text)
        told = (
            f"{shown_name(text)} is not the full name of a ref; write {shown_name(f'refs/heads/{text}')} for a branch"
        )
        raise Refused(f"{told}, {shown_name(f'refs/tags/{text}')} for a tag, or all 40 digits of a commit's id")
    if not is_allowed_proposal(text):
        raise proposal_not_found(text, url=url)
    try:
        return Followed(RefKind.REF, text)
    except Refused as why:  # no name that Git allows, so that no remote has it
        raise ProposalNotFound(why.message) from None


def proposal_not_found(text: str, *, url: str) -> ProposalNotFound:
    """Return the fault for a name of which nothing may be proposed, whyever that is."""
    names = f"{', '.join(PATTERNS[:-1])} or {PATTERNS[-1]}"
    told = f"{url} has nothing to propose at {shown_name(text)}"
    return ProposalNotFound(f"{told}; push it, or name one of {names}, or the commit that one is at")


def proposal_tip(listing: bytes, commit: str) -> str | None:
    """Return the ref that may be proposed and is at a commit, by what `git ls-remote` wrote; None when there is none.

    Of several the first by name. A long listing is searched, and not taken apart.
    """
    lines = re.findall(rb"^%b\t([^\n]+)$" % commit.encode(), listing, re.MULTILINE)
    names = {line.decode("utf-8", "surrogateescape").removesuffix(PEELED) for line in lines}
    return min((name for name in names if _is_name(name) and is_allowed_proposal(name)), default=None)
