"""A file of a tree."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.git.file_selection import FileGlobs, IgnoreRules, is_considered
from tests.repositories import Repository


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.yaml", True),
        ("a.yml", True),
        ("a.json", True),
        ("teams/deep/down/a.yaml", True),
        (".a.yaml", True),
        ("README.md", False),
        ("a.yaml.bak", False),
        ("a.YAML", True),
        ("teams/a.Yml", True),
        ("a.b.JSON", True),
        ("a.YAML.BAK", False),
        ("YAML", False),
        ("yaml", False),
        (".github/a.yaml", False),
        ("teams/.hidden/deep/a.yaml", False),
        ("../a.yaml", False),
        ("drafts/a.yaml", False),
        ("..\\u002fup.yaml", True),
    ],
)
def test_counts_by_its_ending_and_its_folders(path: str, expected: bool) -> None:
    assert is_considered(path, IgnoreRules({"": "drafts/"})) is expected


def test_counts_below_a_configured_folder_that_begins_with_a_dot() -> None:
    ignore = IgnoreRules({}, root=".config/telemetry")
    assert is_considered(".config/telemetry/a.yaml", ignore)
    assert not is_considered(".config/telemetry/.git/a.yaml", ignore)


@pytest.mark.parametrize(
    ("include", "exclude", "counting", "left_out"),
    [
        ([], [], ["a.yaml", "x/a.yaml"], []),
        (["a.yaml"], [], ["a.yaml", "x/a.yaml"], ["b.yaml"]),
        (["/a.yaml"], [], ["a.yaml"], ["x/a.yaml"]),
        (["x/"], [], ["x/a.yaml", "x/y/a.yaml", "y/x/a.yaml"], ["a.yaml"]),
        (["/x/", "*.json"], [], ["x/a.yaml", "a.json"], ["a.yaml", "y/x/a.yaml"]),
        (["x/*/a.yaml"], [], ["x/y/a.yaml"], ["x/a.yaml", "x/y/z/a.yaml"]),
        ([], ["*.test.yaml"], ["a.yaml"], ["a.test.yaml", "x/a.test.yaml"]),
        ([], ["x/"], ["a.yaml"], ["x/a.yaml", "x/y/a.yaml"]),
        (["x/"], ["x/y/", "b.yaml"], ["x/a.yaml"], ["a.yaml", "x/y/a.yaml", "x/b.yaml"]),
        (["[a"], [], [], ["[a", "a.yaml"]),
        ([], ["[a"], ["a.yaml"], []),
        (["*.md", "a.yaml"], [], ["a.yaml"], ["README.md", ".x/a.yaml"]),
        ([], ["drafts/"], [], ["ignored/a.yaml"]),
    ],
)
def test_counts_when_it_is_included_and_not_excluded(
    include: list[str], exclude: list[str], counting: list[str], left_out: list[str]
) -> None:
    ignore = IgnoreRules({"": "ignored/"})
    globs = FileGlobs(include=include, exclude=exclude)
    assert [path for path in counting + left_out if is_considered(path, ignore, globs)] == counting


def test_is_matched_below_the_configured_folder() -> None:
    ignore = IgnoreRules({}, root="teams/web")
    globs = FileGlobs(include=["/a.yaml", "web/"], exclude=["teams"], root="teams/web")
    assert is_considered("teams/web/a.yaml", ignore, globs)
    assert is_considered("teams/web/web/b.yaml", ignore, globs)
    assert not is_considered("teams/web/b.yaml", ignore, globs)
    assert not is_considered("teams/web/teams/a.yaml", ignore, globs)


def test_is_excluded_with_every_folder_above_it() -> None:
    globs = FileGlobs(exclude=["/x/*/", "*.yaml"])
    folders = ["", "x", "x/y", "x/y/z", "y", "y/x/z"]
    assert [folder for folder in folders if globs.excluded_folder(folder)] == ["x/y", "x/y/z"]


NAMES = st.sampled_from(["a", "b", "a.yaml", "b.yaml"])
PATTERNS = st.lists(
    st.sampled_from(["a.yaml", "/a.yaml", "a/", "a/b", "**/b", "a/**", "*", "*.yaml", "[ab]/*.yaml", "/*/a.yaml"]),
    max_size=3,
)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository.init(tmp_path_factory.mktemp("patterns"))


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(include=PATTERNS, exclude=PATTERNS, paths=st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=1))
def test_is_matched_as_git_does(
    checked: Repository, include: list[str], exclude: list[str], paths: list[list[str]]
) -> None:
    def matching(patterns: list[str]) -> set[str]:
        checked.write(".gitignore", "\n".join(patterns))
        asked = "\0".join(files).encode()
        told = checked.git("check-ignore", "--no-index", "-z", "--stdin", data=asked, statuses=(0, 1))
        return set(told.split("\0")) - {""}

    files = sorted({"/".join(names) for names in paths})
    globs = FileGlobs(include=include, exclude=exclude)
    expected = (matching(include) if include else set(files)) - matching(exclude)
    assert {path for path in files if globs.choose(path)} == expected
