"""Refs that are followed or proposed."""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from reconciler.model.errors import Refused
from reconciler.model.names import check_ref_name

# The followed ref of a remote: a branch, a tag, a commit, any other ref, or the target of the remote's HEAD.

SHOWN_CHARACTERS = 200  # of a text from settings in a message
BRANCHES = "refs/heads/"
TAGS = "refs/tags/"
PRIVATE = "refs/reconciler/"  # the followed refs in a mirror
PEELED = "^{}"  # after a name: the target of the tag

OBJECT_ID = re.compile(r"[0-9a-f]{40}")


class RefKind(StrEnum):
    """The kind of a followed ref, by the name of its setting; HEAD without a setting."""

    HEAD = "head"
    BRANCH = "branch"
    TAG = "tag"
    COMMIT = "commit"
    REF = "ref"


class RefHead(NamedTuple):
    """The present commit of a followed ref. `ref` is the full ref of the commit, `HEAD`, or the commit's id. `tag` is
    the annotated tag that leads to it, which may be signed; '' without one.
    """

    ref: str
    commit: str
    tag: str = ""

    def is_held_as(self, held: "RefHead | None") -> bool:
        """Return True if a mirror has the same commit and tag, under any ref."""
        return held is not None and (held.commit, held.tag) == (self.commit, self.tag)

    @property
    def branch(self) -> str | None:
        """The short name of the branch; None for any other ref."""
        return self.ref.removeprefix(BRANCHES) if self.ref.startswith(BRANCHES) else None


class Listing(NamedTuple):
    """The refs of a remote: object ids by ref, with peeled tags under `<ref>^{}`, and the targets of symbolic refs."""

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
    """Return a text from settings in a form for messages: visible and short."""
    return repr(text[:SHOWN_CHARACTERS])


@dataclass(frozen=True, slots=True, order=True)
class Followed:
    """A followed ref or commit. Raises Refused for a name that Git forbids or could take for an option."""

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
        """Its full name, which is unique."""
        return {RefKind.BRANCH: BRANCHES, RefKind.TAG: TAGS}.get(self.kind, "") + self.name

    @property
    def is_fixed(self) -> bool:
        """True if it is a commit's id, which never moves, so that no poll is needed."""
        return self.kind is RefKind.COMMIT

    @property
    def private_ref(self) -> str:
        """The name of its ref in the mirror. It is a digest, so that the branch `a` can become `a/b`, and names never
        collide.
        """
        return PRIVATE + hashlib.sha256(self.full.encode()).hexdigest()[:40]

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return the patterns for `git ls-remote`: the name, and the target of an annotated tag."""
        return self.full, self.full + PEELED

    def found(self, listing: Listing) -> RefHead | None:
        """Return its head in a remote's answer; None if the remote does not have it."""
        if self.is_fixed:
            return RefHead(self.full, self.name)
        found = listing.refs.get(self.full)
        if found is None:
            return None
        ref = _named(listing.symbolic.get("HEAD", "")) if self.kind is RefKind.HEAD else self.full
        commit = listing.refs.get(self.full + PEELED)
        return RefHead(ref, found) if commit is None else RefHead(ref, commit, tag=found)

    def refspec(self, head: RefHead) -> str:
        """Return the refspec for a fetch. It is forced, because branches are rewound and tags moved."""
        return f"+{head.ref}:{self.private_ref}"

    @property
    def told(self) -> str:
        """Its name in a sentence: `the branch main`."""
        return "the HEAD" if self.kind is RefKind.HEAD else f"the {self.kind.value} {self.name}"

    @property
    def setting(self) -> str:
        """The setting to correct if the remote does not have it."""
        return RefKind.BRANCH.value if self.kind is RefKind.HEAD else self.kind.value


HEAD = Followed(RefKind.HEAD)


def following(
    *, branch: str | None = None, tag: str | None = None, commit: str | None = None, ref: str | None = None
) -> Followed:
    """Return the followed ref of one repository's settings, of which at most one is set."""
    given = {RefKind.BRANCH: branch, RefKind.TAG: tag, RefKind.COMMIT: commit, RefKind.REF: ref}
    for kind, name in given.items():
        if name is not None:
            return Followed(kind, name)
    return HEAD


def parse_listing(listing: bytes) -> Listing:
    """Parse the output of `git ls-remote --symref`."""
    found = Listing({}, {})
    for line in listing.decode("utf-8", "surrogateescape").split("\n"):  # splitlines() also splits inside names
        value, _, name = line.partition("\t")
        if value.startswith("ref: "):
            found.symbolic[name] = value.removeprefix("ref: ")
        elif name:
            found.refs[name] = value
    return found


def _named(target: str) -> str:
    """Return the ref of the branch that the remote's HEAD names, or HEAD itself if that name must not be given to
    git.
    """
    return target if target.startswith(BRANCHES) and _is_name(target) else "HEAD"


# Proposals: the names that a caller may give, and the ref whose tip is a commit. Pure.

PROPOSABLE_HEAD = "HEAD"

# A star at the end stands for one or more parts of a name, elsewhere for one part. Other refs of a forge are not for
# everybody who may read the repository: notes, commits that a force-push removed, internal refs.
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
    """The name does not exist, or may not be proposed. The message does not reveal which."""


def is_allowed_proposal(name: str) -> bool:
    """Return True if the full name of a ref may be proposed."""
    return any(pattern.fullmatch(name) for pattern in _ALLOWED)


def wanted_refs(text: str, *, follows: Followed, url: str) -> Followed:
    """Return the refs that a caller names: by its full name, by a commit's id, or the ref that the repository follows.

    Raises Refused for any other name, ProposalNotFound for a ref that may not be proposed or that no remote can have.
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
    except Refused as why:  # Git does not allow the name, so no remote has it
        raise ProposalNotFound(why.message) from None


def proposal_not_found(text: str, *, url: str) -> ProposalNotFound:
    """Return the error for a name that does not exist or may not be proposed."""
    names = f"{', '.join(PATTERNS[:-1])} or {PATTERNS[-1]}"
    told = f"{url} has nothing to propose at {shown_name(text)}"
    return ProposalNotFound(f"{told}; push it, or name one of {names}, or the commit that one is at")


def proposal_tip(listing: bytes, commit: str) -> str | None:
    """Return the first ref by name that may be proposed and is at this commit, in the output of `git ls-remote`; or
    None.

    The output may be long, so it is searched and not parsed.
    """
    lines = re.findall(rb"^%b\t([^\n]+)$" % commit.encode(), listing, re.MULTILINE)
    names = {line.decode("utf-8", "surrogateescape").removesuffix(PEELED) for line in lines}
    return min((name for name in names if _is_name(name) and is_allowed_proposal(name)), default=None)
