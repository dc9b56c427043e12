"""What a commit leads to, by what git tells of it."""

import pytest

from reconciler.git.remotes import mirrors

OLD, NEW, NONE = "1" * 40, "2" * 40, "0" * 40


def told(*changes: tuple[str, str, str, str]) -> bytes:
    return "".join(f":{modes} {old} {new} {letter}\0a.yaml\0" for modes, old, new, letter in changes).encode()


@pytest.mark.parametrize(
    ("change", "leads_to"),
    [
        (("100644 100644", OLD, NEW, "M"), {(NEW, "blob")}),
        (("000000 100755", NONE, NEW, "A"), {(NEW, "blob")}),
        (("000000 120000", NONE, NEW, "A"), {(NEW, "blob")}),
        (("100644 040000", OLD, NEW, "T"), {(NEW, "tree")}),
        (("000000 160000", NONE, NEW, "A"), set()),
        (("100644 000000", OLD, NONE, "D"), set()),
    ],
)
def test_each_kind_of_change_leads_to_what_is_new(
    change: tuple[str, str, str, str], leads_to: set[tuple[str, str]]
) -> None:
    assert mirrors.leads_to(told(change)) == leads_to


def test_a_path_is_no_change_whatever_it_looks_like() -> None:
    path = f":100644 100644 {OLD} {NONE} M"
    assert mirrors.leads_to(f":100644 100644 {OLD} {NEW} M\0{path}\0\0".encode()) == {(NEW, "blob")}
    assert mirrors.leads_to(b"") == set()


@pytest.mark.parametrize(
    "changed",
    [
        b"warning: something\0",
        b":100644 100644\0a\0",
        f":100644 100644 {OLD} {NEW} M".encode(),
        f":100648 100648 {OLD} {NEW} M\0a\0".encode(),
        f"::100644 100644 100644 {OLD} {OLD} {NEW} MM\0a\0".encode(),
        f"100644 100644 {OLD} {NEW} M\0a\0".encode(),
    ],
)
def test_what_is_not_understood_is_not_taken_for_nothing(changed: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        mirrors.leads_to(changed)
