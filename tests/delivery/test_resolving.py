"""The values of texts with references, and the errors for references that lead to nothing."""

import os
from pathlib import Path

import pytest

from reconciler.delivery import secrets
from reconciler.delivery.secrets import SecretSources, UnresolvableSecret
from reconciler.model.errors import Refused
from reconciler.settings import loading
from tests.delivery import folders
from tests.delivery.folders import OUTSIDE, write

PROJECT = "default"
PATTERNS = ("DESTINATION_<PROJECT>__*",)
TOKEN, OTHER = "DESTINATION_DEFAULT__TOKEN", "DESTINATION_DEFAULT__OTHER"


@pytest.fixture
def known(tmp_path: Path) -> SecretSources:
    """Two variables and two files, and what nobody may have."""
    write(tmp_path / "secrets" / PROJECT / "token", "file-token\n")
    write(tmp_path / "secrets" / PROJECT / "a" / "b", "file-b")
    write(tmp_path / "secrets" / PROJECT / "tricky", "${env:SERVICE_API_KEY}${file:token}")
    write(tmp_path / "secrets" / "other" / "theirs", OUTSIDE)
    (tmp_path / "secrets" / PROJECT / "link").symlink_to(tmp_path / "secrets" / "other" / "theirs")
    environment = {
        TOKEN: "variable-token",
        OTHER: "two words",
        "DESTINATION_DEFAULT__EMPTY": "",
        "DESTINATION_DEFAULT__BYTES": os.fsdecode(b"\xff"),
        "DESTINATION_OTHER__TOKEN": OUTSIDE,
        "SERVICE_API_KEY": OUTSIDE,
        "PATH": OUTSIDE,
    }
    return folders.sources(tmp_path / "secrets", environment, patterns=PATTERNS)


def resolve(text: str, known: SecretSources) -> str:
    return secrets.resolve_secrets(text, sources=known, project=PROJECT).text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        ("plain $ {env:X} ${other}", "plain $ {env:X} ${other}"),
        (f"${{env:{TOKEN}}}", "variable-token"),
        ("${file:token}", "file-token"),
        ("${file:a/b}", "file-b"),
        (f"Bearer ${{file:token}}, ${{env:{OTHER}}}!", "Bearer file-token, two words!"),
        ("${file:token}${file:token}", "file-tokenfile-token"),
        # A secret is a value and never a text with references.
        ("${file:tricky}", "${env:SERVICE_API_KEY}${file:token}"),
    ],
)
def test_references_become_what_they_lead_to(known: SecretSources, text: str, value: str) -> None:
    assert resolve(text, known) == value


VARIABLE = (
    "`${env:%s}` leads to nothing: give the service a variable of this name that is not empty and that "
    "`secrets.env` lets the project see, and restart it."
)


@pytest.mark.parametrize(
    "name",
    [
        "DESTINATION_DEFAULT__GONE",
        "DESTINATION_DEFAULT__EMPTY",
        "DESTINATION_DEFAULT__BYTES",
        "DESTINATION_OTHER__TOKEN",
        "SERVICE_API_KEY",
        "service_api_key",
        "PATH",
    ],
)
def test_a_variable_that_is_not_to_be_had_is_told_alike_whatever_the_cause(known: SecretSources, name: str) -> None:
    with pytest.raises(UnresolvableSecret) as told:
        resolve(f"x ${{env:{name}}}", known)
    assert told.value.message == VARIABLE % name
    assert isinstance(told.value, Refused)


@pytest.mark.parametrize("name", ["gone", "link", "a", "a/gone", "theirs", "token/x"])
def test_a_file_that_is_not_to_be_had_is_told_with_its_place_whatever_the_cause(
    known: SecretSources, name: str
) -> None:
    with pytest.raises(UnresolvableSecret) as told:
        resolve(f"${{file:token}}${{file:{name}}}", known)
    place = known.directory.path / PROJECT / name
    assert told.value.message == (
        f"`${{file:{name}}}` leads to nothing: put a file of text, not empty and of at most 64 KiB, at {place}, which "
        "the service can read and to which no link leads."
    )


@pytest.mark.parametrize(
    "text",
    [
        "${env:",
        "${file:../other/theirs}",
        "${file:/etc/passwd}",
        "${file:%2e%2e/other/theirs}",
        f"${{env:{TOKEN}:-canary}}",
        "canary ${env:A B}",
    ],
)
def test_what_is_malformed_is_told_without_repeating_it(known: SecretSources, text: str) -> None:
    with pytest.raises(UnresolvableSecret) as told:
        resolve(text, known)
    assert told.value.message == secrets.MALFORMED


def test_no_error_holds_a_value(known: SecretSources) -> None:
    with pytest.raises(UnresolvableSecret) as told:
        resolve(f"canary ${{env:{TOKEN}}} ${{file:token}} ${{file:gone}}", known)
    chain = repr(told.value) + repr(told.value.__cause__) + repr(told.value.args)
    assert [each for each in ("canary", "variable-token", "file-token") if each in chain] == []


def test_a_changed_file_counts_at_the_next_use(known: SecretSources) -> None:
    file = known.directory.path / PROJECT / "token"
    assert resolve("${file:token}", known) == "file-token"
    write(file.with_name(".new"), "rotated").rename(file)
    assert resolve("${file:token}", known) == "rotated"
    file.unlink()
    with pytest.raises(UnresolvableSecret):
        resolve("${file:token}", known)


def test_a_text_cannot_ask_for_any_amount(known: SecretSources) -> None:
    write(known.directory.path / PROJECT / "large", "x" * 65536)
    assert len(resolve("${file:large}" * 16, known)) == secrets.MOST_CHARACTERS
    with pytest.raises(UnresolvableSecret) as told:
        resolve("${file:large}" * 16 + "y", known)
    assert told.value.message == secrets.TOO_LONG
    assert f"{secrets.MOST_CHARACTERS:,}" in secrets.TOO_LONG


def test_the_settings_say_where_secrets_are(tmp_path: Path) -> None:
    write(tmp_path / "state" / "secrets" / PROJECT / "token", "by default")
    write(tmp_path / "own" / PROJECT / "token", "by setting")
    write(tmp_path / "credentials" / f"{PROJECT}_token", "by systemd")

    def token(config: str, **environment: str) -> str:
        file = write(tmp_path / "config.yaml", f"stateDir: {tmp_path}/state\n{config}")
        settings = loading.load(config=file, environment={}, overrides={}).settings
        return resolve("${file:token}", secrets.configured_sources(settings, environment=environment))

    credentials = {"CREDENTIALS_DIRECTORY": str(tmp_path / "credentials")}
    assert token("") == "by default"
    assert token("", **credentials) == "by systemd"
    assert token(f"secrets: {{directory: {tmp_path}/own}}", **credentials) == "by setting"


def test_the_settings_say_which_variables(tmp_path: Path) -> None:
    config = write(tmp_path / "config.yaml", "secrets: {env: [TOKEN_OF_<PROJECT>]}\n")
    settings = loading.load(config=config, environment={}, overrides={}).settings
    known = secrets.configured_sources(settings, environment={"TOKEN_OF_DEFAULT": "x", TOKEN: "y"})
    assert resolve("${env:TOKEN_OF_DEFAULT}", known) == "x"
    with pytest.raises(UnresolvableSecret):
        resolve(f"${{env:{TOKEN}}}", known)
