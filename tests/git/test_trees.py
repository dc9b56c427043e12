"""A tree."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.git import trees
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.trees import TreeEntry, TreeFile, TreeMode

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


# Whatever looks like an entry, or like a part of one, where there is none: in names, and in ids.
_CONFUSING_NAMES = st.one_of(
    NAMES,
    st.sampled_from([b"a", b"100644 a", b"x40000 b", b"4 a", b"\xff", b".."]),
    st.text(" 04a", min_size=1).map(str.encode),
)
_CONFUSING_IDS = st.one_of(
    st.binary(min_size=20, max_size=20),
    st.just(b"4 a\0" * 5),
    st.lists(st.sampled_from(list(b"\0 04a")), min_size=20, max_size=20).map(bytes),
)
_ENTRIES = st.tuples(st.sampled_from([b"100644", b"40000", b"4"]), _CONFUSING_NAMES, _CONFUSING_IDS)


@st.composite
def _two_folders(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Two that have much in common, as they are stored; sometimes damaged."""
    old = draw(st.lists(_ENTRIES, max_size=8))
    new = list(old)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(new)))
        new[at : at + draw(st.integers(0, 2))] = draw(st.lists(_ENTRIES, max_size=1))
    stored = [b"".join(mode + b" " + name + b"\0" + entry for mode, name, entry in one) for one in (old, new)]
    cut = draw(st.sampled_from([None, None, None, -1, -3, 5]))
    damaged = draw(st.integers(0, 1))
    stored[damaged] = stored[damaged][:cut]
    return stored[0], stored[1]


def _parsed(data: bytes) -> list[trees.Raw] | None:
    try:
        return trees.parse(data)
    except ValueError:
        return None


@given(_two_folders())
def test_two_folders_differ_where_their_whole_lists_do(folders: tuple[bytes, bytes]) -> None:
    old, new = map(_parsed, folders)
    if old is None or new is None:
        with pytest.raises(ValueError, match="not a well-formed tree"):
            trees.differing(*folders)
        return
    left, right = trees.differing(*folders)
    pairs = zip(old, new, strict=False)
    begin = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
    assert (old[begin : begin + len(left)], new[begin : begin + len(right)]) == (left, right)
    assert old[begin + len(left) :] == new[begin + len(right) :]
    assert not left or not right or left[-1] != right[-1] or left[0] != right[0]


@given(st.lists(_ENTRIES, max_size=8), _CONFUSING_NAMES)
def test_an_entry_is_found_by_its_name_and_nowhere_else(entries: list[trees.Raw], name: bytes) -> None:
    stored = b"".join(mode + b" " + other + b"\0" + entry for mode, other, entry in entries)
    assert trees.find(stored, name) == next((entry for entry in entries if entry[1] == name), None)
    for entry in entries:
        assert trees.find(stored, entry[1]) is not None


@pytest.mark.parametrize("name", [b"a", b"b"])
def test_nothing_is_found_in_a_damaged_folder(name: bytes) -> None:
    with pytest.raises(ValueError, match="not a well-formed tree"):
        trees.find(b"100644 a\0" + ID + b"x", name)


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
    assert entry == TreeEntry(shown, 0o100644, ID.hex(), hostile=shown.encode() != raw)


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
        (0o100644, False, TreeMode.REGULAR),
        (0o100664, False, TreeMode.REGULAR),
        (0o100755, False, TreeMode.EXECUTABLE),
        (0o120000, False, TreeMode.SYMLINK),
        (0o160000, False, TreeMode.SUBMODULE),
        (0o060000, False, TreeMode.HOSTILE),
        (0o100644, True, TreeMode.HOSTILE),
    ],
)
def test_says_what_a_file_is(mode: int, hostile: bool, expected: TreeMode) -> None:
    file = trees.place("teams").file(TreeEntry("a.yaml", mode, ID.hex(), hostile))
    assert file == TreeFile("teams/a.yaml", ID.hex(), expected)
    assert file.readable is (expected in {TreeMode.REGULAR, TreeMode.EXECUTABLE})


def test_makes_everything_below_a_hostile_folder_hostile() -> None:
    below = trees.place("").below(TreeEntry("\\xff", 0o040000, ID.hex(), hostile=True))
    assert below.file(TreeEntry("a.yaml", 0o100644, ID.hex(), hostile=False)).mode is TreeMode.HOSTILE


@pytest.mark.parametrize(("name", "levels"), [("a", trees.MAX_DEPTH), ("a" * 1000, 4)])
def test_is_bounded_in_depth_and_length(name: str, levels: int) -> None:
    place = trees.place("")
    folder = TreeEntry(name, 0o040000, ID.hex(), hostile=False)
    for _ in range(levels):
        place = place.below(folder)
    with pytest.raises(GitFault) as found:
        place.below(folder)
    assert found.value.state is RepositoryState.UNSUPPORTED_FORMAT
