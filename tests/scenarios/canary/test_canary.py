"""Distinct secrets in every place where one may stand: none comes out, in no form, in nothing that can be looked at.

Only mirrors hold what somebody committed in clear: they are copies of the repository.
"""

from collections.abc import Mapping

import pytest

from tests.canaries import MARKER, leaks
from tests.scenarios.canary import evidence, places
from tests.scenarios.canary.evidence import Evidence, Gathering


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Evidence, Gathering]:
    return evidence.gather(tmp_path_factory.mktemp("canary"))


@pytest.fixture
def found(gathered: tuple[Evidence, Gathering]) -> Evidence:
    return gathered[0]


def leaking(outputs: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Return where a secret is, with what stands around it."""
    number = places.NUMBER.encode()
    return {
        what: [*leaks(data), *([places.NUMBER] if number in data else [])]
        for what, data in outputs.items()
        if number in data or leaks(data)
    }


def test_no_answer_holds_a_secret(found: Evidence) -> None:
    assert leaking(found.answers) == {}


def test_what_stands_in_fields_that_no_schema_describes_is_shown_to_its_sender_alone(found: Evidence) -> None:
    assert len(found.echoes) > 20  # each says the field, and repeats the document
    assert {status for what, status in found.statuses.items() if what in found.echoes} == {202, 409}
    elsewhere = {**found.answers, **found.printed, **found.files, "log": found.log}
    assert [what for what, data in elsewhere.items() if b"in-a-spec" in data] == []


def test_no_command_prints_a_secret(found: Evidence) -> None:
    assert leaking(found.printed) == {}


def test_the_log_holds_no_secret_at_the_level_debug(found: Evidence) -> None:
    assert leaking({"log": found.log}) == {}
    assert b"Stopped." in found.log


def test_no_process_that_the_daemon_starts_is_told_a_secret(found: Evidence) -> None:
    assert any(b"git\0" in data for data in found.processes.values())
    assert any(b"reconciler.worker.child" in data for data in found.processes.values())
    assert leaking(found.processes) == {}


def test_no_stored_file_holds_a_secret_but_the_column_of_secrets(found: Evidence) -> None:
    assert leaking(found.files) == {}


def test_a_mirror_holds_what_was_committed_and_nothing_else(found: Evidence) -> None:
    clean, leaky = (
        next(data for name, data in found.objects.items() if name.startswith(repository))
        for repository in ("clean", "leaky")
    )
    assert leaks(clean) == []
    assert MARKER.encode() in leaky


def test_a_secret_that_the_service_made_is_shown_once_and_kept_nowhere(found: Evidence) -> None:
    assert len(set(found.made.values())) == 4
    everywhere = {**found.answers, **found.printed, **found.processes, **found.files, "log": found.log}
    assert [what for what, data in everywhere.items() if any(made in data for made in found.made.values())] == []


def test_everything_was_really_done(gathered: tuple[Evidence, Gathering]) -> None:
    found, gathering = gathered
    assert set(found.statuses.values()) >= {200, 202, 400, 401, 404, 409}
    assert not [what for what, status in found.statuses.items() if status >= 500]
    assert gathering.secrets > 20
    masked = [what for what, data in found.answers.items() if b"(sensitive)" in data]
    assert len(masked) > 100
    assert any(b"(sensitive)" in data for data in found.printed.values())
    assert b"(sensitive)" in found.files["store.db without version.secrets"]
