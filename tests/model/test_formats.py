"""Formats: texts that parse as YAML, and names of time zones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import schemas
from reconciler.model import validators


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("a: 1", True),
        ("receivers:\n  otlp: {protocols: {grpc: }}\n", True),
        ("- a\n---\n- b\n", True),
        ("${env:TOKEN}", True),
        # A resource may not have these, a collector's own configuration may.
        ("a: &a {b: 1}\nc:\n  <<: *a\n  d: !!binary aGk=\n", True),
        ("a: [", False),
        ("a: b: c", False),
        ("\ta", False),
        ("{{ .template }}: }", False),
        ("'open", False),
        ("[" * 200 + "]" * 200, False),
    ],
)
def test_text_parses_as_yaml_or_not(text: str, expected: bool) -> None:
    assert validators.is_yaml(text) is expected


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_is_yaml_or_is_not(text: str) -> None:
    assert validators.is_yaml(text) in (True, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("UTC", True),
        ("Europe/Berlin", True),
        ("America/Argentina/Buenos_Aires", True),
        ("Etc/GMT+5", True),
        ("US/Pacific", True),
        ("", False),
        ("europe/berlin", False),
        ("Europe", False),
        ("Europe/Berlin ", False),
        ("/usr/share/zoneinfo/UTC", False),
        ("../UTC", False),
        ("+02:00", False),
        ("localtime", False),
        ("posixrules", False),
        ("posix/UTC", False),
        ("right/UTC", False),
        ("Factory", False),
    ],
)
def test_a_time_zone_goes_by_its_name(text: str, expected: bool) -> None:
    assert validators.is_timezone(text) is expected


def test_the_list_of_time_zones_is_whole() -> None:
    zones = schemas.time_zones()

    assert len(zones) > 500
    assert all(zone.isascii() and not zone.startswith("/") and ".." not in zone for zone in zones)
