"""A tree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.git import trees
from reconciler.git.faults import GitFault, State
from reconciler.git.trees import Entry, File, Mode

ID = b"\x11" * 20
NAMES = st.binary(min_size=1, max_size=12).filter(lambda name: b"\0" not in name)


@given(
    st.lists(st.tuples(st.sampled_from([b"100644", b"40000", b"120000"]), NAMES, st.binary(min_size=20, max_size=20)))
)
def test_is_read_as_it_is_stored(entries: list[trees.Raw]) -> None:
    assert trees.parse(b"".join(mode + b" " + name + b"\0" + entry for mode, name, entry in entries)) == entries


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"100644 a",
        b"100644 a\0short",
        b"100644 \0" + ID,
        b"100648 a\0" + ID,
        b"100644 a\0" + ID + b"x",
        b" a\0" + ID,
    ],
)
def test_is_refused_when_it_is_damaged(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a well-formed tree"):
        trees.parse(data)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"a.yaml", "a.yaml"),
        ("été.yaml".encode(), "été.yaml"),
        (b"with space", "with space"),
        (b"a/b.yaml", "a\\u002fb.yaml"),
        (b"a\\b.yaml", "a\\\\b.yaml"),
        (b"\xff.yaml", "\\xff.yaml"),
        (b"a\nb.yaml", "a\\u000ab.yaml"),
        (b"\x1b[31m.yaml", "\\u001b[31m.yaml"),
        ("gpj\u202elmay.".encode(), "gpj\\u202elmay."),
    ],
)
def test_shows_hostile_names_escaped(raw: bytes, shown: str) -> None:
    [entry] = trees.named([(b"100644", raw, ID)])
    assert entry == Entry(shown, 0o100644, ID.hex(), hostile=shown.encode() != raw)


@given(st.lists(NAMES, unique=True))
def test_never_shows_two_names_alike(names: list[bytes]) -> None:
    shown = [entry.name for entry in trees.named((b"100644", name, ID) for name in names)]
    assert len(set(shown)) == len(names)
    assert not any(trees.UNSAFE.search(name.replace("\\", "")) for name in shown)


@given(st.lists(NAMES, unique=True))
def test_shows_a_name_alike_in_any_company(names: list[bytes]) -> None:
    alone = [entry for name in names for entry in trees.named([(b"100644", name, ID)])]
    assert list(trees.named((b"100644", name, ID) for name in names)) == alone


@pytest.mark.parametrize(
    ("mode", "hostile", "expected"),
    [
        (0o100644, False, Mode.REGULAR),
        (0o100664, False, Mode.REGULAR),
        (0o100755, False, Mode.EXECUTABLE),
        (0o120000, False, Mode.SYMLINK),
        (0o160000, False, Mode.SUBMODULE),
        (0o060000, False, Mode.HOSTILE),
        (0o100644, True, Mode.HOSTILE),
    ],
)
def test_says_what_a_file_is(mode: int, hostile: bool, expected: Mode) -> None:
    file = trees.place("teams").file(Entry("a.yaml", mode, ID.hex(), hostile))
    assert file == File("teams/a.yaml", ID.hex(), expected)
    assert file.readable is (expected in {Mode.REGULAR, Mode.EXECUTABLE})


def test_makes_everything_below_a_hostile_folder_hostile() -> None:
    below = trees.place("").below(Entry("\\xff", 0o040000, ID.hex(), hostile=True))
    assert below.file(Entry("a.yaml", 0o100644, ID.hex(), hostile=False)).mode is Mode.HOSTILE


@pytest.mark.parametrize(("name", "levels"), [("a", trees.MAX_DEPTH), ("a" * 1000, 4)])
def test_is_bounded_in_depth_and_length(name: str, levels: int) -> None:
    place = trees.place("")
    folder = Entry(name, 0o040000, ID.hex(), hostile=False)
    for _ in range(levels):
        place = place.below(folder)
    with pytest.raises(GitFault) as found:
        place.below(folder)
    assert found.value.state is State.UNSUPPORTED_FORMAT
