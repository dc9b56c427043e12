"""The form of what people read."""

import pytest

from reconciler.cli import output


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("There is no Fleet x.", "there is no Fleet x"),
        ("A new resource is not valid.", "a new resource is not valid"),
        ("Fleet x is in use.", "Fleet x is in use"),
        ("Git is not installed.", "Git is not installed"),
        ("SERVICE_API_KEY is not set", "SERVICE_API_KEY is not set"),
        ("TLS is off.", "TLS is off"),
        ("http://a gave no answer", "http://a gave no answer"),
        ("wait...", "wait..."),
        ("a name must not be `..`", "a name must not be `..`"),
        ("", ""),
    ],
)
def test_an_error_begins_small_and_has_no_full_stop(message: str, shown: str) -> None:
    assert output.error_sentence(message) == shown


@pytest.mark.parametrize(("number", "shown"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_a_number_has_its_noun(number: int, shown: str) -> None:
    assert output.counted(number, "file") == shown


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        ("2026-11-21T06:12:00.123Z", "2026-11-21T06:12:00Z"),
        ("2026-11-21T06:12:00Z", "2026-11-21T06:12:00Z"),
        ("", ""),
    ],
)
def test_a_moment_is_shown_to_the_second(moment: str, shown: str) -> None:
    assert output.moment_text(moment) == shown
