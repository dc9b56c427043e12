"""Violations: how they are told, and in which order."""

from reconciler.model.text import MOST_LINES
from reconciler.model.violations import LONGEST_POINTER, Place, Violation, in_document_order, lines


def test_a_place_is_written_as_compilers_write_it() -> None:
    assert str(Place("teams/a.yaml", 10, 14)) == "teams/a.yaml:10:14"


def test_each_violation_is_one_line_with_place_and_pointer() -> None:
    found = [Violation((), "is not an object"), Violation(("spec", "type"), "is not a string")]

    assert lines(found, lambda _: "teams/a.yaml:10:14").splitlines() == [
        "teams/a.yaml:10:14: is not an object",
        "teams/a.yaml:10:14: /spec/type: is not a string",
    ]


def test_without_a_file_a_line_begins_with_the_pointer() -> None:
    found = [Violation((), "is not an object"), Violation(("metadata", "a/b~c"), "is not a known field", at_key=True)]

    assert lines(found, lambda _: "") == "is not an object\n/metadata/a~1b~0c: is not a known field"


def test_a_hostile_key_stays_on_its_line() -> None:
    found = [Violation(("a\nb\x1b[31m\u2028é 😀", "c"), "is wrong")]

    assert lines(found, lambda _: "") == "/a\\nb\\x1b[31m\\u2028é 😀/c: is wrong"


def test_a_long_pointer_is_cut() -> None:
    assert lines([Violation(("k" * 10_000,), "is wrong")], lambda _: "") == f"/{'k' * (LONGEST_POINTER - 1)}…: is wrong"


def test_beyond_the_limit_the_rest_is_counted() -> None:
    told = lines([Violation((index,), "is wrong") for index in range(MOST_LINES + 7)], lambda _: "").splitlines()

    assert (len(told), told[-2], told[-1]) == (MOST_LINES + 1, f"/{MOST_LINES - 1}: is wrong", "and 7 more")


def test_violations_are_ordered_as_the_document_is_with_the_missing_last() -> None:
    value: dict[str, object] = {"b": {"y": 1, "x": [1, 2, 3]}, "a": 1}
    ordered = [
        Violation((), "root"),
        Violation(("b",), "parent"),
        Violation(("b", "y"), "first key"),
        Violation(("b", "x", 2), "a list's item"),
        Violation(("b", "x", 9), "an item that is missing"),
        Violation(("b", "missing"), "is required"),
        Violation(("a",), "first message"),
        Violation(("a",), "second message"),
        Violation(("missing",), "is required"),
        Violation(("missing too",), "is required"),
    ]

    assert in_document_order([*reversed(ordered), ordered[0]], value) == tuple(ordered)  # type: ignore[arg-type]
