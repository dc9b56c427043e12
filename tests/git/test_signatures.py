"""The signature of a commit or tag."""

import base64
import os
import re
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pygit2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.git.remotes import verification
from reconciler.git.remotes.verification import ObjectKind, UnusableSignature
from tests.repositories import Repository
from tests.signing import Signer

TREE = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"
PEOPLE = b"author A <a@x> 1700000000 +0100\ncommitter C <c@x> 1700000060 -0230\n"
COMMIT = TREE + PEOPLE + b"\nChange\n"
TAG = (
    b"object 4b825dc642cb6eb9a060e54bf8d69288fbee4904\ntype commit\ntag v1\ntagger T <t@x> 1700000120 +0000\n\nFirst\n"
)
PGP = b"-----BEGIN PGP SIGNATURE-----\n\niQEz\n-----END PGP SIGNATURE-----\n"


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer.make(tmp_path_factory.mktemp("keys"), "ada")


def with_header(raw: bytes, signature: bytes) -> bytes:
    """The commit with a signature where git puts it."""
    header, body = raw.split(b"\n\n", 1)
    return header + b"\ngpgsig " + b"\n ".join(signature.rstrip(b"\n").split(b"\n")) + b"\n\n" + body


def test_of_a_commit_is_taken_from_its_header(ada: Signer) -> None:
    armor = ada.signature(COMMIT)
    signed = verification.read_signed(ObjectKind.COMMIT, with_header(COMMIT, armor))
    assert signed is not None
    assert (signed.payload, signed.armor) == (COMMIT, armor)
    assert signed.key == f"the key {ada.fingerprint}"
    assert signed.made == datetime(2023, 11, 14, 22, 14, 20, tzinfo=UTC)


def test_of_a_tag_is_its_end(ada: Signer) -> None:
    armor = ada.signature(TAG)
    signed = verification.read_signed(ObjectKind.TAG, TAG + armor)
    assert signed is not None
    assert (signed.payload, signed.armor, signed.key) == (TAG, armor, f"the key {ada.fingerprint}")
    assert signed.made == datetime(2023, 11, 14, 22, 15, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "raw"), [(ObjectKind.COMMIT, COMMIT), (ObjectKind.TAG, TAG), (ObjectKind.COMMIT, COMMIT + PGP)]
)
def test_may_be_missing(kind: ObjectKind, raw: bytes) -> None:
    assert verification.read_signed(kind, raw) is None


def test_of_a_merged_tag_is_not_that_of_the_merge(ada: Signer) -> None:
    tag = TAG + ada.signature(TAG)
    merge = COMMIT.replace(b"\n\n", b"\nmergetag " + b"\n ".join(tag.rstrip(b"\n").split(b"\n")) + b"\n\n")
    assert verification.read_signed(ObjectKind.COMMIT, merge) is None


def armored(blob: bytes) -> bytes:
    """An SSH signature that holds anything."""
    text = base64.b64encode(blob)
    return b"-----BEGIN SSH SIGNATURE-----\n" + text + b"\n-----END SSH SIGNATURE-----\n"


def blob(*fields: bytes, version: int = 1) -> bytes:
    """The inside of an SSH signature."""
    texts = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return b"SSHSIG" + version.to_bytes(4, "big") + texts


KEY = b"\0\0\0\x0bssh-ed25519\0\0\0\x01k"
GOOD = (KEY, b"git", b"", b"sha512", b"signature")
UNREADABLE = "has a signature that cannot be read"
SEVERAL = "has several signatures, or one of an unknown sort"


@pytest.mark.parametrize(
    ("armor", "why"),
    [
        (PGP, "is signed with PGP, and only SSH signatures are checked"),
        (b"-----BEGIN PGP MESSAGE-----\nx\n", "is signed with PGP, and only SSH signatures are checked"),
        (b"-----BEGIN SIGNED MESSAGE-----\nx\n", "is signed with X.509, and only SSH signatures are checked"),
        (b"something else", UNREADABLE),
        (armored(b""), UNREADABLE),
        (armored(b"SSHSIG"), UNREADABLE),
        (armored(blob(*GOOD, version=2)), UNREADABLE),
        (armored(blob(*GOOD[:4])), UNREADABLE),
        (armored(blob(*GOOD, b"more")), UNREADABLE),
        (armored(blob(*GOOD)[:-1]), UNREADABLE),
        (armored(blob(b"\0\0", *GOOD[1:])), UNREADABLE),
        (armored(blob(*GOOD)).replace(b"END", b"AND"), UNREADABLE),
        (armored(blob(*GOOD)) + armored(blob(*GOOD)), UNREADABLE),
        (armored(blob(*GOOD)).replace(b"U1NI", b"!1NI"), UNREADABLE),
        (armored(blob(KEY, b"file", *GOOD[2:])), "has a signature that was made for `file` and not for `git`"),
        (armored(blob(KEY, b"\x1b[2J", *GOOD[2:])), "has a signature that was made for `\\x1b[2J` and not for `git`"),
    ],
)
def test_that_cannot_be_checked_says_why(armor: bytes, why: str) -> None:
    with pytest.raises(UnusableSignature, match=f"^{re.escape(why)}$"):
        verification.read_signed(ObjectKind.COMMIT, with_header(COMMIT, armor))


@pytest.mark.parametrize("filler", [b"\t", b" \t", b"A\t", b"\t\x0b\x0c"])
def test_that_never_ends_is_refused_at_once_however_long_it_is(filler: bytes) -> None:
    armor = b"-----BEGIN SSH SIGNATURE-----" + filler * (300_000 // len(filler))
    began = time.process_time()
    with pytest.raises(UnusableSignature, match=UNREADABLE):
        verification.read_signed(ObjectKind.COMMIT, with_header(COMMIT, armor))
    assert time.process_time() - began < 1.0  # in the square of its length it would be minutes


def test_names_no_fingerprint_of_a_certificate() -> None:
    certificate = b"\0\0\0\x20ssh-ed25519-cert-v01@openssh.com..."
    signed = verification.read_signed(ObjectKind.COMMIT, with_header(COMMIT, armored(blob(certificate, *GOOD[1:]))))
    assert signed is not None
    assert signed.key == "a certificate"


@pytest.mark.parametrize(
    ("kind", "raw", "why"),
    [
        (ObjectKind.COMMIT, with_header(with_header(COMMIT, PGP), PGP), SEVERAL),
        (ObjectKind.COMMIT, with_header(COMMIT, PGP).replace(b"gpgsig", b"gpgsig-sha256"), SEVERAL),
        (ObjectKind.COMMIT, with_header(COMMIT, armored(blob(*GOOD))).replace(b"\n\n", b"\ngpgsigs x\n\n"), SEVERAL),
        (ObjectKind.TAG, with_header(TAG, PGP), SEVERAL),
        (ObjectKind.TAG, with_header(TAG, PGP).replace(b"gpgsig", b"gpgsig-sha256") + armored(blob(*GOOD)), SEVERAL),
        (ObjectKind.COMMIT, TAG, "is not a well-formed commit"),
        (ObjectKind.TAG, COMMIT, "is not a well-formed tag"),
        (ObjectKind.COMMIT, b"", "is not a well-formed commit"),
        (ObjectKind.COMMIT, b"gpgsig x\n" + COMMIT, "is not a well-formed commit"),
        (
            ObjectKind.COMMIT,
            with_header(COMMIT, armored(blob(*GOOD))).replace(b"committer C", b"committer C\nx"),
            "does not say when it was made",
        ),
        (
            ObjectKind.TAG,
            TAG.replace(b"tagger", b"x") + b"\ntagger T <t@x> 1 +0000\n" + armored(blob(*GOOD)),
            "does not say when it was made",
        ),
    ],
)
def test_of_an_object_that_git_would_not_make_is_refused(kind: ObjectKind, raw: bytes, why: str) -> None:
    with pytest.raises(UnusableSignature, match=f"^{re.escape(why)}$"):
        verification.read_signed(kind, raw)


@pytest.mark.parametrize("kind", ["tree", "blob", "x"])
def test_of_a_tag_that_leads_to_no_commit_is_refused(kind: str) -> None:
    assert verification.tag_target(TAG) == ("4b825dc642cb6eb9a060e54bf8d69288fbee4904", ObjectKind.COMMIT)
    with pytest.raises(UnusableSignature, match=r"^leads to no commit$"):
        verification.tag_target(TAG.replace(b"type commit", f"type {kind}".encode()))


# libgit2 looks for a signature in the text of a commit too, and git does not; nor does it read beyond a NUL.
LINES = st.binary(max_size=12).map(lambda line: line.translate(None, b"\n\0"))
NAMES = st.sampled_from([b"encoding", b"mergetag", b"x", b"gpg", b"parents"])
HEADERS = st.lists(
    st.tuples(NAMES, LINES, st.lists(LINES, max_size=3)).map(
        lambda parts: parts[0] + b" " + b"\n ".join([parts[1], *parts[2]])
    ),
    max_size=3,
)
TEXTS = st.lists(LINES.filter(lambda line: not line.startswith(b"gpgsig")), max_size=4).map(b"\n".join)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> pygit2.Repository:
    return pygit2.init_repository(str(tmp_path_factory.mktemp("objects")), bare=True)


@settings(deadline=None, max_examples=50)
@given(before=HEADERS, signature=st.none() | st.lists(LINES, min_size=1, max_size=4), after=HEADERS, text=TEXTS)
def test_of_a_commit_is_the_one_that_libgit2_finds(
    objects: pygit2.Repository, before: list[bytes], signature: list[bytes] | None, after: list[bytes], text: bytes
) -> None:
    found = [] if signature is None else [b"gpgsig " + b"\n ".join(signature)]
    raw = TREE + PEOPLE + b"".join(line + b"\n" for line in [*before, *found, *after]) + b"\n" + text
    commit = objects[objects.odb.write(pygit2.enums.ObjectType.COMMIT, raw)]
    assert isinstance(commit, pygit2.Commit)
    expected, payload = commit.gpg_signature
    split, armor = verification.split_commit(raw)
    if expected is None:
        assert (split, armor) == (raw, None)
    else:
        assert (split, armor) == (payload, expected + b"\n")


GIT_ASKS = """#!/bin/sh
# What git gives to ssh-keygen.
while [ $# -gt 0 ]; do
  case $1 in -Y) question=$2 ;; -s) cp "$2" "$SEEN/signature" ;; esac
  shift
done
case $question in
find-principals) echo somebody ;;
verify) cat > "$SEEN/payload"; echo 'Good "git" signature for x with ED25519 key SHA256:y' ;;
esac
"""

INNER = armored(blob(*GOOD))


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (ObjectKind.COMMIT, with_header(COMMIT, INNER)),
        (ObjectKind.COMMIT, with_header(COMMIT.replace(b"\n\n", b"\nencoding x\n\n\n"), INNER)),
        (ObjectKind.COMMIT, with_header(COMMIT + b"\ngpgsig " + INNER, INNER)),
        (ObjectKind.COMMIT, with_header(COMMIT, INNER).replace(b"\n\nChange", b"\nx y\n z\n\n\nChange\0\r\n")),
        (ObjectKind.TAG, TAG + INNER),
        (ObjectKind.TAG, TAG + INNER + b"\nmore\n" + INNER),
        (ObjectKind.TAG, TAG + b" " + INNER + INNER),
        (ObjectKind.TAG, TAG.rstrip(b"\n") + b"\0\n" + INNER + b"after it\n"),
    ],
)
def test_is_split_off_as_git_does(tmp_path: Path, kind: ObjectKind, raw: bytes) -> None:
    repository = Repository.init(tmp_path / "repository")
    stub = tmp_path / "ssh-keygen"
    stub.write_text(GIT_ASKS)
    stub.chmod(0o755)
    name = repository.git("hash-object", "-w", "-t", kind, "--literally", "--stdin", data=raw)
    repository.git("config", "gpg.ssh.program", str(stub))
    repository.git("config", "gpg.ssh.allowedSignersFile", os.devnull)
    subprocess.run(
        ["git", f"verify-{kind}", name],
        cwd=repository.path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SEEN": str(tmp_path)},
        check=True,
        capture_output=True,
    )
    split = verification.split_commit if kind is ObjectKind.COMMIT else verification.split_tag
    assert split(raw) == ((tmp_path / "payload").read_bytes(), (tmp_path / "signature").read_bytes())
