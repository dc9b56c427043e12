"""Following a page: what a command is, what it is held against, and that a page that lies is found out."""

import pytest

from tests.scenarios.walks import following
from tests.scenarios.walks.following import Step, Walk

FENCE = "```"


def page(text: str, *, language: str = "console", told: str = "") -> str:
    comment = f"<!-- walk: {told} -->\n\n" if told else ""
    return f"Words.\n\n{comment}{FENCE}{language}\n{text}{FENCE}\n"


def test_a_command_goes_on_over_lines_that_belong_to_it() -> None:
    text = "# why\na \\\n  b\n\ncat > f <<'EOF'\nit's\nEOF\ncurl -d '\n{}'\n"
    assert following.commands(text) == ["a \\\n  b", "cat > f <<'EOF'\nit's\nEOF", "curl -d '\n{}'"]


def test_a_command_without_an_end_is_a_mistake_of_the_page() -> None:
    with pytest.raises(AssertionError, match="has no end"):
        following.commands("echo 'a\n")


def test_a_session_is_commands_with_what_they_say() -> None:
    assert following.steps("$ a 'x\ny'\none\ntwo\n$ b\n") == [Step("a 'x\ny'", "one\ntwo\n"), Step("b", "")]


@pytest.mark.parametrize(
    ("said", "expected", "fits"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\n", False),
        ("a\nb\nc\n", "a\n...\nc\n", True),
        ("a\nc\n", "a\n...\nc\n", True),
        ("a\nb\n", "a\n...\nc\n", False),
        ("at 0123456789ab\n", "at ba9876543210\n", True),
        ("at 2026-11-22T18:45:49Z\n", "at 2031-01-02T03:04:05Z\n", True),
        ("http://127.0.0.1:41234 got\n", "http://127.0.0.1:3001 got\n", True),
        ("2 created\n", "3 created\n", False),
    ],
)
def test_what_differs_in_every_walk_does_not_count(said: str, expected: str, *, fits: bool) -> None:
    assert following.fits(said, expected) is fits


def test_a_shell_stays_the_same_from_block_to_block(walk: Walk) -> None:
    walk.follow(page("mkdir f\ncd f\nexport A=b\n", language="sh") + page("$ echo $A; basename $PWD\nb\nf\n"))


@pytest.mark.parametrize(
    "text",
    [
        page("$ echo a\nb\n"),
        page("$ false\n"),
        page("false\n", language="sh"),
        page("$ true\n", told="fails"),
    ],
)
def test_a_page_that_lies_is_found_out(walk: Walk, text: str) -> None:
    with pytest.raises(AssertionError):
        walk.follow(text)


def test_what_comes_a_moment_later_is_looked_for_again(walk: Walk) -> None:
    walk.follow(page("$ wc -l < f || true\n2\n", told="again").replace("wc", "echo x >> f; wc"))


def test_another_terminal_goes_on_until_it_is_interrupted(walk: Walk) -> None:
    walk.follow(
        page("$ trap 'echo bye; exit' INT; echo up; sleep 60 & wait\nup\n", told="terminal other, stays")
        + page("$ echo main\nmain\n")
        + page("bye\n", told="terminal other, Ctrl-C")
    )


def test_a_file_is_written_where_its_first_line_says(walk: Walk) -> None:
    walk.follow(page("# deep/f.yaml\na: 1\n", language="yaml") + page("$ cat deep/f.yaml\n# deep/f.yaml\na: 1\n"))
