"""The ignore files of a tree."""

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reconciler.git.file_selection import MAX_PATTERNS, IgnoreRules
from reconciler.model import gitignore
from reconciler.model.errors import Refused
from tests.repositories import Repository


@pytest.mark.parametrize(
    ("line", "ignored", "kept"),
    [
        ("a.yaml", ["a.yaml", "x/a.yaml"], ["ba.yaml", "a.yaml.yml"]),
        ("/a.yaml", ["a.yaml"], ["x/a.yaml"]),
        ("x/", ["x/a", "y/x/a"], ["x"]),
        ("x/a", ["x/a", "x/a/b"], ["y/x/a"]),
        ("*.yaml", ["a.yaml", "x/.yaml"], ["a.yml"]),
        ("x/*", ["x/a", "x/y/a"], ["y/x/a", "x"]),
        ("**/x", ["x", "a/x", "a/b/x"], ["ax"]),
        ("x/**", ["x/a", "x/a/b"], ["x"]),
        ("x/**/a", ["x/a", "x/y/a", "x/y/z/a"], ["x/ya", "a"]),
        ("a?c", ["abc"], ["ac", "abbc"]),
        ("[a-c]1", ["a1", "c1"], ["d1", "-1"]),
        ("[!a-c]1", ["d1"], ["a1"]),
        ("[^a]1", ["b1"], ["a1"]),
        ("[]x]1", ["]1", "x1"], ["a1"]),
        ("[[:digit:]x]", ["7", "x"], ["d", ":"]),
        ("[[:nonsense:]]", [], ["a", ":"]),
        ("[a", [], ["[a", "a"]),
        ("a\\*", ["a*"], ["ab"]),
        ("\\#a", ["#a"], ["a"]),
        ("\\!a", ["!a"], ["a"]),
        ("#a", [], ["#a", "a"]),
        ("a  ", ["a"], ["a  "]),
        ("a\\ ", ["a "], ["a"]),
        ("a\r", ["a"], ["a\r"]),
        ("a\\", [], ["a", "a\\"]),
        ("!", [], ["a", "!"]),
        ("/", [], ["a"]),
        ("", [], ["a"]),
        ("é", ["é"], ["e"]),
        ("A", ["A"], ["a"]),
    ],
)
def test_are_read_line_by_line(line: str, ignored: list[str], kept: list[str]) -> None:
    ignore = IgnoreRules({"": line})
    assert [path for path in ignored + kept if ignore.ignored(path)] == ignored


@pytest.mark.parametrize(
    ("texts", "ignored", "kept"),
    [
        ({"": "*.yaml\n!keep.yaml"}, ["a.yaml"], ["keep.yaml"]),
        ({"": "!keep.yaml\n*.yaml"}, ["a.yaml", "keep.yaml"], []),
        ({"": "x/\n!x/keep.yaml"}, ["x/keep.yaml"], []),
        ({"": "x/*\n!x/keep.yaml"}, ["x/a.yaml"], ["x/keep.yaml"]),
        ({"": "*.yaml", "x": "!*.yaml"}, ["a.yaml"], ["x/a.yaml"]),
        ({"x": "a.yaml"}, ["x/a.yaml", "x/y/a.yaml"], ["a.yaml"]),
        ({"x": "/a.yaml"}, ["x/a.yaml"], ["x/y/a.yaml"]),
        ({"": "x/", "x": "!*"}, ["x/a.yaml"], []),
        ({"": "\ufeffa.yaml\r\nb.yaml\r\n"}, ["a.yaml", "b.yaml"], ["c.yaml"]),
        ({}, [], ["a.yaml"]),
    ],
)
def test_work_together(texts: dict[str, str], ignored: list[str], kept: list[str]) -> None:
    ignore = IgnoreRules(texts)
    assert [path for path in ignored + kept if ignore.ignored(path)] == ignored


def test_say_nothing_of_the_folders_above_the_configured_one() -> None:
    ignore = IgnoreRules({"teams/x": "teams\nx"}, root="teams/x")
    assert not ignore.ignored("teams/x/a.yaml")
    assert ignore.ignored("teams/x/teams/a.yaml")


def test_are_bounded() -> None:
    IgnoreRules({"x": "a\n" * MAX_PATTERNS})
    with pytest.raises(Refused, match=r"x/\.serviceignore has 1001 patterns"):
        IgnoreRules({"x": "a\n" * (MAX_PATTERNS + 1)})


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("*a" * 100 + "b", "a" * 255),
        ("**/a/" * 30 + "b", "a/" * 200 + "c"),
        ("[a-z]*" * 50 + "1", "a" * 255),
        ("?*" * 100 + "b", "a" * 255),
        ("*" * 1000 + "b", "a" * 255),
    ],
)
def test_match_in_bounded_time(line: str, path: str) -> None:
    started = time.process_time()
    assert not IgnoreRules({"": line}).ignored(path)
    assert time.process_time() - started < 1  # about 0.002 here


@given(st.text(alphabet="ab*?[]!^-\\/: \r#", max_size=12), st.text(alphabet="ab/]", max_size=6))
def test_never_fail(line: str, path: str) -> None:
    pattern = gitignore.parse(line)
    if pattern is not None:
        pattern.matches(path.split("/"), is_folder=True)


PARTS = st.one_of(
    st.sampled_from(
        ["**", "*", "a", "ab", "a.yaml", "*.yaml", "?", "a*b", "[ab]", "[!a]", "[a-b]*", "\\a", "*a*", "b[[:alpha:]]"]
    )
)
LINES = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["", "/", "!", "!/", "#"]),
    st.lists(PARTS, min_size=1, max_size=3),
    st.sampled_from(["", "/", " ", "\\ ", "\r"]),
)
TEXTS = st.lists(LINES, max_size=4).map("\n".join)
PATHS = [
    "a",
    "ab",
    "a.yaml",
    "a /b",
    "ab/a.yaml",
    "b/a",
    "b/a.yaml",
    "b/b/a.yaml",
    "b/ab/b",
    "b/ab/c.yaml",
    "c/a/b/a",
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS, TEXTS)
@example("*.yaml\n!b/", "")
@example("b/**\n!b/a.yaml", "!ab")
@example("/*\n!/b", "*\n!/b/\n")
def test_say_what_git_says(tmp_path: Path, root: str, below: str) -> None:
    repository = Repository(tmp_path)
    if not (tmp_path / ".git").exists():
        repository = Repository.init(tmp_path)
    repository.write(".gitignore", root)
    repository.write("b/.gitignore", below)
    command = ["check-ignore", "--no-index", "--verbose", "--non-matching", "-z", "--stdin"]
    checked = repository.git(*command, data="\0".join(PATHS).encode(), statuses=(0, 1)).split("\0")
    # Four fields a path: the file, the line's number, the line, the path. The last line that matches decides.
    expected = [
        path for pattern, path in zip(checked[2::4], checked[3::4], strict=True) if pattern and pattern[0] != "!"
    ]
    ignore = IgnoreRules({"": root, "b": below})
    assert [path for path in PATHS if ignore.ignored(path)] == expected
