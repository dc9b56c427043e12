"""Keys of projects whose makers are no admins any more: which they are, and until when they are told."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from reconciler.auth import changes
from reconciler.model.clock import rfc3339
from reconciler.model.directory import Directory, Key
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.principals import SERVICE_KEY, Role
from reconciler.notifications import service_observers
from reconciler.notifications.models import Cause, Domain
from tests.api.parts import START, Moment
from tests.auth import directories

pytestmark = pytest.mark.anyio

NOW = directories.AT


def made_by(maker: str, number: int = 1, *, project: str | None = "payments", expires_at: str | None = None) -> Key:
    text, identifier = directories.text(number), f"K{number}"
    return directories.key(
        text, identifier=identifier, project=project, role=Role.ADMIN, expires_at=expires_at, created_by=maker
    )


def found(directory: Directory) -> Mapping[tuple[str, str], list[str]]:
    return {cause: [key.id for key in one] for cause, one in changes.keys_to_review(directory, now=NOW).items()}


@pytest.mark.parametrize(
    ("maker", "project", "is_told"),
    [
        ("user:ada", "payments", False),
        ("user:ada", "default", True),
        ("user:ada", None, True),
        ("user:una", "payments", True),
        ("user:nil", "payments", True),
        ("user:root", "payments", False),
        ("user:root", None, False),
        ("user:gone", "payments", True),
        ("key:GONE", "payments", True),
        ("user:K2", "payments", True),
        (SERVICE_KEY.name, None, False),
        ("user:local", None, False),
    ],
)
def test_a_key_is_told_when_its_maker_could_not_make_it_now(maker: str, project: str | None, is_told: bool) -> None:
    directory = directories.directory(made_by(maker, project=project))
    assert found(directory) == ({(project or "", maker): ["K1"]} if is_told else {})


@pytest.mark.parametrize(
    ("maker", "is_told"),
    [
        (made_by("user:root", 2), False),
        (made_by("user:root", 2, project="default"), True),
        (made_by("user:root", 2, expires_at=NOW), True),
        (replace(made_by("user:root", 2), role=Role.USER), True),
    ],
)
def test_a_key_that_a_key_made_is_told_unless_that_one_still_might(maker: Key, is_told: bool) -> None:
    directory = directories.directory(maker, made_by(f"key:{maker.id}", 1))
    assert found(directory) == ({("payments", "key:K2"): ["K1"]} if is_told else {})


def test_people_s_own_keys_and_those_that_have_ended_are_not_told() -> None:
    own = directories.key(directories.text(1), owner="una")
    ended = made_by("user:gone", 2, expires_at=NOW)
    assert found(directories.directory(own, ended)) == {}


def test_another_person_of_the_same_name_made_none_of_the_keys_of_before() -> None:
    directory = directories.directory(made_by("user:ada"))
    later = replace(directory.users["ada"], created_at=directories.LATER)
    assert found(replace(directory, users={**directory.users, "ada": later})) == {("payments", "user:ada"): ["K1"]}


def test_there_is_one_cause_for_each_maker_in_each_project() -> None:
    directory = directories.directory(
        made_by("user:gone", 3), made_by("user:gone", 1), made_by("user:una", 2), made_by("user:gone", 4, project=None)
    )
    assert found(directory) == {
        ("", "user:gone"): ["K4"],
        ("payments", "user:gone"): ["K1", "K3"],
        ("payments", "user:una"): ["K2"],
    }


async def test_what_is_to_be_reviewed_is_looked_for_again_when_people_or_keys_change_or_a_key_ends() -> None:
    clock, ends = Moment(), rfc3339(START + timedelta(hours=1))
    directory = directories.directory(made_by("user:ada", 1, expires_at=ends), made_by("user:ada", 2))
    observer = service_observers.KeyObserver(lambda: directory, clock=clock)
    look = await observer.observe()
    assert (look.domain, look.findings, look.projects) == (Domain.KEYS, (), None)
    directory = replace(directory, members={})
    for named in (("a pipeline (K1)", "a pipeline (K2)"), ("a pipeline (K2)",)):
        look = await observer.observe()
        [finding] = look.findings
        assert finding.cause == Cause(NotificationType.KEYS_TO_REVIEW, "user:ada", "payments")
        assert (finding.severity, finding.details) == (Severity.WARNING, f"{', '.join(named)}.")
        clock.pass_(hours=1)
    directory = replace(directory, keys={})
    look = await observer.observe()
    assert look.findings == ()
