"""The owners of a file, as CODEOWNERS says."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import code_owners

FILE = """
# Everything has somebody, until a later line says otherwise.
*                    @org/all
*.yaml               @yaml
/teams/              @org/teams          # a comment
/teams/orders        @orders orders@example.com
docs/                @docs
/direct/*            @direct
/deep/**             @deep
**/logs              @logs
/teams/free/
apps/*/main.yaml     @apps
with\\ space.txt      @space
[abc].txt            @nobody-reads-this
/teams/bad           not-an-owner
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("README.md", ["@org/all"]),
        ("a/b/c.yaml", ["@yaml"]),
        ("teams/x.yaml", ["@org/teams"]),
        ("teams/orders/deep/x.yaml", ["@orders", "orders@example.com"]),
        ("teams/orders-not/x.yaml", ["@org/teams"]),
        ("teams/orders", ["@orders", "orders@example.com"]),
        ("other/teams/x.md", ["@org/all"]),
        ("a/docs/b/c.md", ["@docs"]),
        ("docs", ["@org/all"]),
        ("direct/x.md", ["@direct"]),
        ("direct/deeper/x.md", ["@org/all"]),
        ("deep/er/x.md", ["@deep"]),
        ("a/b/logs/x.md", ["@logs"]),
        ("logs", ["@logs"]),
        ("teams/free/x.yaml", []),
        ("apps/web/main.yaml", ["@apps"]),
        ("with space.txt", ["@space"]),
        ("teams/bad/x.md", ["@org/teams"]),
    ],
)
def test_last_line_that_matches_counts(path: str, expected: list[str]) -> None:
    assert list(code_owners.parse(FILE).of(path)) == expected


SECTIONS = """
*  @default
[Database] @dba
model/db/
*.sql @sql
!model/db/free.sql
^[Docs][2] @writers
*.md
[database]
extra.rb
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("x.rb", ["@default"]),
        ("model/db/x.rb", ["@default", "@dba"]),
        ("model/db/x.sql", ["@default", "@sql"]),
        ("model/db/free.sql", ["@default"]),
        ("README.md", ["@default", "@writers"]),
        ("extra.rb", ["@default", "@dba"]),
    ],
)
def test_sections_count_each_for_themselves(path: str, expected: list[str]) -> None:
    assert list(code_owners.parse(SECTIONS).of(path)) == expected


def test_a_file_without_lines_tells_nothing() -> None:
    assert code_owners.parse("").of("a/b.yaml") == ()
    assert code_owners.parse("# only a comment\n\n").of("a/b.yaml") == ()


def test_a_file_too_long_tells_nothing() -> None:
    assert code_owners.parse("* @all\n" * 500_000).of("a") == ()


@given(st.text(st.sampled_from("*?/[]!#\\ @a\n^"), max_size=60), st.text(st.sampled_from("a/*@ "), min_size=1))
def test_any_file_and_any_path_have_an_answer(text: str, path: str) -> None:
    assert all("@" in owner for owner in code_owners.parse(text).of(path))


def test_hostile_patterns_take_no_time() -> None:
    lines = "".join(f"/{'*a' * 20}{number}/**/*{'?*' * 20}b @x\n" for number in range(2_000))
    asked = code_owners.parse(lines + "".join(f"/teams/team-{number}/ @team-{number}\n" for number in range(10_000)))
    begun = time.process_time()
    assert asked.of("teams/team-77/x.yaml") == ("@team-77",)
    for number in range(300):
        asked.of(f"{'a' * 100}/{number % 10}/{'ab' * 50}{number}.yaml")
    assert time.process_time() - begun < 5


def test_a_path_of_thousands_of_folders_is_answered() -> None:
    assert code_owners.parse("a/ @x").of("a/" * 2_000 + "b") == ("@x",)
