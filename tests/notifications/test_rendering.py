"""A notification as the interface shows it, with sentences for every type and a link that leads somewhere."""

import hashlib
import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications import alerts, rendering
from reconciler.notifications.ledger import DueAlert
from reconciler.notifications.models import Cause, Domain, Finding, Notification, UserStatus
from reconciler.notifications.rendering import NotificationPlace
from tests.docs import pages
from tests.notifications import boards
from tests.notifications.observing import CAUSE, START, Book, at

PLACE = NotificationPlace("Example Ltd", "https://service.example.org/")
DOCUMENT = pages.read(pages.ROOT / "docs" / "notifications.md")


def one(type_: NotificationType = CAUSE.type, **changed: Any) -> Notification:
    """A notification that was opened at the start."""
    made = Notification(
        id="01M7ZDJ4517MMPZDG6WAJTS57T",
        domain=Domain.REPOSITORIES,
        cause=Cause(type_, "telemetry", "acme"),
        severity=Severity.ERROR,
        title="The repository telemetry cannot be read",
        details="It refuses the password.",
        opened=START,
        began=START,
        modified=START,
    )
    return replace(made, **changed)


def shown(notification: Notification, status: UserStatus = UserStatus.UNREAD) -> Any:
    return json.loads(rendering.render(notification, PLACE, status))


def test_the_whole_is_as_the_interface_has_it() -> None:
    spec = {
        "notificationType": "RepositoryUnreachable",
        "severity": "error",
        "scope": "project",
        "organization": "Example Ltd",
        "account": "acme",
        "recommendationId": "repositoryunreachable",
        "hidden": False,
    }
    link = "https://service.example.org/docs/notifications#repositoryunreachable"
    found = shown(one())
    cause = found["metadata"]["labels"].pop("service/cause")
    assert re.fullmatch("[0-9a-f]{32}", cause)
    assert found == {
        "apiVersion": "service/v1",
        "kind": "Notification",
        "metadata": {
            "id": "01M7ZDJ4517MMPZDG6WAJTS57T",
            "name": "RepositoryUnreachable-01M7ZDJ4517MMPZDG6WAJTS57T",
            "displayName": "The repository telemetry cannot be read",
            "description": "The repository telemetry cannot be read",
            "labels": {"service/state": "open", "service/since": "20261122T020000Z", "service/occurrences": "1"},
            "version": 1,
            "dateModified": "2026-11-22T02:00:00.000Z",
            "deprecated": False,
            "stability": "stable",
            "resourceDocLink": link,
            "additionalInfo": {
                "message": "It refuses the password. The last applied resources stay and are served. New commits are "
                "not seen. Correct what the message names. The service retries by itself and reads credential files "
                "again at each poll.",
                "documentation": [{"text": "RepositoryUnreachable: what it means and what to do", "url": link}],
            },
            "hash": hashlib.sha256(msgspec.json.encode(spec, order="sorted")).hexdigest(),
        },
        "spec": spec,
        "status": {"userStatus": "unread"},
    }


def test_what_was_dismissed_is_hidden_and_what_was_read_is_not() -> None:
    found = [shown(one(), status) for status in UserStatus]
    assert [(each["status"]["userStatus"], each["spec"]["hidden"]) for each in found] == [
        ("unread", False),
        ("read", False),
        ("dismissed", True),
    ]


@pytest.mark.parametrize(
    ("cause", "members"),
    [
        (Cause(NotificationType.DISK_LOW), {"scope": "organization"}),
        (Cause(NotificationType.DISK_LOW, project="acme"), {"scope": "project", "account": "acme"}),
        (Cause(NotificationType.DISK_LOW, user="id-ana"), {"scope": "user", "userId": "id-ana"}),
    ],
)
def test_what_is_empty_is_absent(cause: Cause, members: dict[str, str]) -> None:
    spec = shown(one(NotificationType.DISK_LOW, cause=cause))["spec"]
    assert {name: spec[name] for name in ("scope", "account", "userId") if name in spec} == members


def test_one_that_is_over_says_so_and_how_often_it_came() -> None:
    found = shown(one(resolved=at(minutes=5), occurrences=3, version=6))["metadata"]
    assert (found["displayName"], found["labels"]["service/state"]) == (
        "Resolved: The repository telemetry cannot be read",
        "resolved",
    )
    assert found["additionalInfo"]["message"].startswith(
        "Over since 2026-11-22T02:05:00.000Z; it was: It refuses the password."
    )
    assert found["additionalInfo"]["message"].endswith("It has come 3 times since 2026-11-22T02:00:00.000Z.")


@pytest.mark.parametrize("type_", NotificationType)
def test_every_type_says_what_it_means_and_what_to_do_in_whole_sentences(type_: NotificationType) -> None:
    said = rendering.text_of(one(type_))
    assert re.fullmatch(r"It refuses the password[.] [A-Z`][^\n]{60,}[.]", said.message)
    assert "  " not in said.message
    assert ".." not in said.message
    assert rendering.text_of(one(type_, details="")).message == said.message.removeprefix("It refuses the password. ")


@pytest.mark.parametrize("type_", NotificationType)
def test_every_type_has_its_part_of_the_page(type_: NotificationType) -> None:
    section = pages.section(DOCUMENT, type_.value)
    assert " ".join(section.split()) == " ".join(rendering.explanations()[type_])
    assert rendering.type_link(type_, PLACE).partition("#")[2] in pages.anchors(DOCUMENT)


@pytest.mark.parametrize(
    ("project", "of"), [("default", ""), ("acme", " --project acme")], ids=["default", "another project"]
)
def test_a_command_of_what_a_project_has_names_the_project_where_it_must(project: str, of: str) -> None:
    types = (NotificationType.DELIVERY_FAILING, NotificationType.DEAD_LETTERS, NotificationType.PRUNE_HELD)
    said = [rendering.text_of(one(type_, cause=Cause(type_, "siem", project))).message for type_ in types]
    assert [re.findall("`(reconciler [^`]*)`", message) for message in said] == [
        [f"reconciler send-test siem{of}"],
        [f"reconciler queue replay siem{of}", f"reconciler queue discard siem{of}"],
        ["reconciler approve siem"],
    ]


def test_a_row_of_an_earlier_version_has_its_type_for_a_title() -> None:
    said = rendering.text_of(one(title="", details=""))
    assert said.title == "RepositoryUnreachable telemetry"
    assert said.message.startswith("The last applied resources stay and are served. ")


@pytest.mark.parametrize(
    ("names", "total", "text"),
    [
        ((), 0, ""),
        (("a",), 1, "a"),
        (("a", "b"), 2, "a, b"),
        (("a", "b", "c", "d", "e"), 12, "a, b, c, d, e and 7 more"),
    ],
)
def test_names_are_counted_beyond_the_first_few(names: tuple[str, ...], total: int, text: str) -> None:
    assert rendering.named(names, total=total) == text


@pytest.mark.parametrize(
    ("text", "expected"), [("", ""), ("it fails", "It fails."), ("Why? ", "Why?"), ("x" * 501, f"X{'x' * 499}…")]
)
def test_a_text_becomes_a_bounded_sentence(text: str, expected: str) -> None:
    assert rendering.sentence(text) == expected


@given(st.text(max_size=2_000), st.sampled_from(NotificationType))
def test_whatever_a_cause_holds_the_sentence_is_bounded_and_shows_it(text: str, type_: NotificationType) -> None:
    book = Book()
    book.observe(Finding(Cause(type_, text, text), title=text, details=text), now=START)
    said = rendering.text_of(book.only)
    assert len(said.message) < 20_000
    assert "\n" not in said.message
    assert "\x1b" not in said.title + said.message
    assert shown(book.only)["metadata"]["additionalInfo"]["message"]


def test_an_alert_calls_nobody_and_leads_nowhere_else() -> None:
    hostile = "<!channel> <https://evil.example|here> @all [x](y) & so on."
    text = alerts.alert_text(one(details=hostile), PLACE)
    head, message, link = text.split("\n")
    assert head == "[error] The repository telemetry cannot be read (acme)"
    assert message.startswith(
        "&lt;!channel&gt; &lt;https:\u200b//evil.example|here&gt; @\u200ball [x]\u200b(y) &amp; so on."
    )
    assert link == "https://service.example.org/docs/notifications#repositoryunreachable"


def test_an_alert_says_that_it_concerns_the_organization_which_may_be_named_as_a_project_is() -> None:
    text = alerts.alert_text(
        one(NotificationType.STORE_DEGRADED, cause=Cause(NotificationType.STORE_DEGRADED), title="It is full"),
        PLACE,
    )
    assert text.startswith("[error] It is full (organization Example Ltd)\n")


@pytest.mark.parametrize(
    ("written", "cut"),
    [
        ("@everyone", "@|everyone"),
        ("<@U024BE7LH>", "&lt;@|U024BE7LH&gt;"),
        ("<!here>", "&lt;!here&gt;"),
        ("HTTPS://evil.example", "HTTPS:|//evil.example"),
        ("slack://channel", "slack:|//channel"),
        ("www.evil.example", "www|.evil.example"),
        ("_www.evil.example_", "_www|.evil.example_"),
        ("evil.example/phish", "evil.|example/phish"),
        ("ftp.evil.example", "ftp|.evil.example"),
        ("`parts.d/a.yaml` of v1.0/b", "`parts.d/a.yaml` of v1.0/b"),
        ("mailto:a@evil.example", "mailto|:a@|evil.example"),
        ("![look](https://evil.example)", "![look]|(https:|//evil.example)"),
        ("[look] (//evil.example)", "[look]| (//evil.example)"),
        ("[look][1]", "[look]|[1]"),
        ("[1]: //evil.example", "[1]|: //evil.example"),
        ("``` and ````", "`|`` and `|`|``"),
        ("`reconciler approve` at 10:30", "`reconciler approve` at 10:30"),
    ],
)
def test_what_somebody_wrote_about_a_type_is_text_in_a_chat(written: str, cut: str) -> None:
    text = alerts.alert_text(one(NotificationType.RESOURCE_DEPRECATED, details=f"Used. {written}"), PLACE)
    shown = text.split("\n")[1].replace("\u200b", "|")
    assert shown.removeprefix("Used. ").startswith(f"{cut} It works as before. ")


def test_an_alert_holds_the_notification_and_says_what_became_of_it() -> None:
    ended = one(resolved=at(minutes=5))
    for is_end, event, expected in ((False, "opened", one()), (True, "resolved", ended)):
        due = DueAlert(at(seconds=1), is_end, ended.id)
        found = json.loads(alerts.alert_body(ended, due, PLACE, identifier="A1"))
        assert found["notification"] == shown(expected)
        assert list(found) == ["text", "id", "event", "at", "notification"]
        assert (found["id"], found["event"], found["at"]) == ("A1", event, "2026-11-22T02:00:01.000Z")
        assert found["text"].startswith("[error] The repository" if event == "opened" else "Resolved: The repository")


def test_an_alert_has_the_same_id_at_each_attempt_and_no_other_alert_has_it() -> None:
    targets = (boards.target("chat"), boards.target("pager"))
    due = [DueAlert(at(seconds=second), is_end, name) for second in (1, 2) for is_end in (False, True) for name in "NM"]
    first, again = [[alerts.alert_id(alert, target) for alert in due for target in targets] for _ in range(2)]
    assert (first, len(set(first))) == (again, len(due) * len(targets))


def test_a_signature_is_the_one_of_the_standard() -> None:
    # The example of the specification of Standard Webhooks, whose secret is public.
    signed = alerts.alert_signature(
        b'{"test": 2432232314}',
        identifier="msg_p5jXN8AQM9LWM0D4loKWxJek",
        seconds=1614265330,
        secret=b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    )
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_without_a_secret_nothing_is_signed() -> None:
    named = dict(alerts.alert_headers(b"{}", identifier="A1", seconds=7, secret=None))
    assert named == {"Content-Type": "application/json", "webhook-id": "A1", "webhook-timestamp": "7"}
