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
from reconciler.notifications.models import AlertTarget, Cause, Domain, Facts, Notification, UserStatus
from reconciler.notifications.rendering import NotificationPlace
from tests.docs import pages
from tests.notifications.observing import CAUSE, START, at

PLACE = NotificationPlace("Example Ltd", "https://service.example.org/")
DOCUMENT = pages.read(pages.ROOT / "docs" / "notifications.md")
FACTS: dict[NotificationType, Facts] = {
    NotificationType.REPOSITORY_UNREACHABLE: {"state": "unauthorized", "message": "it refuses the password"},
    NotificationType.REPOSITORY_HELD: {"state": "path-missing", "message": "The folder is missing."},
    NotificationType.PRUNE_HELD: {"message": "Nothing is deleted: 4 of 7 resources would go."},
    NotificationType.RECONCILE_FAILED: {"message": "The store could not be written."},
    NotificationType.RESOURCES_INVALID: {
        "invalid": 7,
        "in-use": 1,
        "total": 8,
        "names": ("Fleet a", "Fleet b"),
        "refused": 1,
        "first": "a.yaml:3:1: /spec/x is missing",
    },
    NotificationType.FLOW_STOPPED: {
        "repository": "telemetry",
        "commit": "3f2a1c90d5aa",
        "total": 2,
        "names": ("edge stops delivering to siem: the Configuration is deleted", "web stops delivering to siem"),
    },
    NotificationType.CONFIGURATION_INCOMPLETE: {"total": 1, "names": ("edge",)},
    NotificationType.DELIVERY_STALE: {"total": 2, "names": ("edge", "web")},
    NotificationType.RESOURCE_DEPRECATED: {
        "users": 2,
        "names": ("Destination a", "Destination b"),
        "instead": "use otlp",
    },
    NotificationType.DELIVERY_FAILING: {"cause": "The destination siem answered 503."},
    NotificationType.DEAD_LETTERS: {"batches": 3},
    NotificationType.QUEUE_NEARLY_FULL: {"percent": 100},
    NotificationType.QUEUE_DAMAGED: {"files": 1, "lost": 2},
    NotificationType.LOGS_UNROUTED: {},
    NotificationType.DISK_LOW: {"beyond": 1, "queues": 1, "folder": "/var/lib/reconciler"},
    NotificationType.CERTIFICATE_EXPIRING: {
        "what": "The listener's certificate",
        "until": "2026-12-01",
        "expired": 0,
        "todo": "Renew.",
    },
    NotificationType.KEYS_TO_REVIEW: {"total": 2, "names": ("pipeline (01K)", "deploy (01L)")},
    NotificationType.STORE_DEGRADED: {"message": "The store could not be read."},
    NotificationType.STORE_DAMAGED: {"total": 1, "names": ("Source file (version 2, project acme)",)},
    NotificationType.SESSIONS_LOST: {},
    NotificationType.TOO_MANY_OPEN_FILES: {"percent": 90, "most": 1024},
}


def one(type_: NotificationType = CAUSE.type, **changed: Any) -> Notification:
    """A notification that was opened at the start."""
    made = Notification(
        id="01M7ZDJ4517MMPZDG6WAJTS57T",
        domain=Domain.REPOSITORIES,
        cause=Cause(type_, "telemetry", "acme"),
        severity=Severity.ERROR,
        facts=FACTS[type_],
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
                "message": "It refuses the password. What was applied last stays and is served; nothing newer is. Mend "
                "its credentials: their files are read again at each look, so that nothing need be restarted.",
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
def test_every_type_says_what_happened_and_what_to_do_in_whole_sentences(type_: NotificationType) -> None:
    said = rendering.text_of(one(type_))
    assert re.fullmatch(r"[A-Za-z0-9][^\n]{10,120}", said.title)
    assert not said.title.endswith(".")
    assert re.fullmatch(r"[A-Z0-9`][^\n]*[.]", said.message)
    assert len(said.message) > 80
    assert "  " not in said.message
    assert ".." not in said.message


@pytest.mark.parametrize("type_", NotificationType)
def test_every_type_has_its_part_of_the_page(type_: NotificationType) -> None:
    section = pages.section(DOCUMENT, type_.value)
    assert " ".join(section.split()) == " ".join(rendering.explanations()[type_])
    assert rendering.type_link(type_, PLACE).partition("#")[2] in pages.anchors(DOCUMENT)


@pytest.mark.parametrize(
    ("project", "of"), [("default", ""), ("acme", " --project acme")], ids=["default", "another project"]
)
def test_a_command_of_what_a_project_has_names_the_project_where_it_must(project: str, of: str) -> None:
    said = [
        rendering.text_of(one(type_, cause=Cause(type_, "siem", project))).message
        for type_ in (
            NotificationType.DELIVERY_FAILING,
            NotificationType.DEAD_LETTERS,
            NotificationType.QUEUE_NEARLY_FULL,
        )
    ]
    assert [re.findall("`(reconciler [^`]*)`", message) for message in said] == [
        [f"reconciler send-test siem{of}"],
        [f"reconciler queue replay siem{of}", f"reconciler queue status siem{of}"],
        [f"reconciler queue status siem{of}"],
    ]


def test_of_a_destination_without_a_queue_no_queue_is_told() -> None:
    said = rendering.text_of(one(NotificationType.DELIVERY_FAILING, facts={"cause": "it answered 503", "inline": 1}))
    assert said.message == (
        "It answered 503. It has no queue: senders are refused, keep their log records and send them again; now and "
        "then one of their requests is let through, to find out whether the endpoint is back. `reconciler send-test "
        "telemetry --project acme` tries it now."
    )


def test_a_queue_that_is_full_says_what_happens_now_and_one_that_nearly_is_what_will() -> None:
    full = rendering.text_of(one(NotificationType.QUEUE_NEARLY_FULL))
    nearly = rendering.text_of(one(NotificationType.QUEUE_NEARLY_FULL, facts={"percent": 80}))
    assert full.title == "The queue of the destination telemetry is full"
    assert full.message.startswith(
        "It takes no more: records are now refused, or dropped or made dead letters where `on_full` says so. "
    )
    assert nearly.title == "The queue of the destination telemetry is nearly full"
    assert nearly.message.startswith(
        "It is at 80 percent or more of what it takes. Once it is full, records are refused, or dropped or "
    )


def test_what_is_held_says_once_what_to_do_with_the_name_of_the_repository() -> None:
    held = "Nothing is deleted: 4 of 7 would go; restore them, or release this with `reconciler approve`."
    assert rendering.text_of(one(NotificationType.PRUNE_HELD, facts={"message": held})).message == (
        "Nothing is deleted: 4 of 7 would go; restore them, or release this with `reconciler approve telemetry`. "
        "Everything else of the commit is applied."
    )
    assert (
        "`reconciler approve telemetry`"
        in rendering.text_of(one(NotificationType.REPOSITORY_HELD, facts={"message": held})).message
    )


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (
            {"invalid": 1, "total": 1, "names": ("Destination desk",), "first": "desk.yaml:3:1: /spec/x is missing"},
            "1 invalid: Destination desk; desk.yaml:3:1: /spec/x is missing. What was stored of it before stays and is "
            "served. `reconciler runs --last telemetry` names it with file, line and reason; mend it in Git.",
        ),
        (
            {
                "invalid": 7,
                "in-use": 1,
                "total": 8,
                "names": ("Fleet a", "Fleet b"),
                "first": "a.yaml:3:1: it is wrong",
            },
            "7 invalid, 1 in-use: Fleet a, Fleet b and 6 more. The first: a.yaml:3:1: it is wrong. What was stored of "
            "them before stays and is served. `reconciler runs --last telemetry` names each with file, line and "
            "reason; mend them in Git.",
        ),
    ],
    ids=["one", "several"],
)
def test_resources_that_are_not_stored_are_counted_and_the_first_has_its_reason(facts: Facts, message: str) -> None:
    assert rendering.text_of(one(NotificationType.RESOURCES_INVALID, facts=facts)).message == message


def test_names_are_counted_beyond_the_first_few() -> None:
    facts = {"total": 12, "names": ("a", "b", "c", "d", "e")}
    message = rendering.text_of(one(NotificationType.CONFIGURATION_INCOMPLETE, facts=facts)).message
    assert message.startswith("Parameters are missing or wrong in a, b, c, d, e and 7 more, or in ")


@given(st.text(max_size=2_000), st.sampled_from(NotificationType))
def test_whatever_a_fact_holds_the_sentence_is_bounded_and_shows_it(text: str, type_: NotificationType) -> None:
    facts = {name: text if isinstance(value, str) else value for name, value in FACTS[type_].items()}
    said = rendering.text_of(one(type_, facts=facts, cause=Cause(type_, text, text)))
    assert len(said.message) < 5_000
    assert "\n" not in said.message
    assert "\x1b" not in said.message
    assert shown(one(type_, facts=facts, cause=Cause(type_, "a", "b")))["metadata"]["additionalInfo"]["message"]


def test_an_alert_calls_nobody_and_leads_nowhere_else() -> None:
    hostile = {"state": "unreachable", "message": "<!channel> <https://evil.example|here> @all [x](y) & so on"}
    text = alerts.alert_text(one(facts=hostile), PLACE)
    head, message, link = text.split("\n")
    assert head == "[error] The repository telemetry cannot be read (acme)"
    assert message.startswith(
        "&lt;!channel&gt; &lt;https:\u200b//evil.example|here&gt; @\u200ball [x]\u200b(y) &amp; so on."
    )
    assert link == "https://service.example.org/docs/notifications#repositoryunreachable"


def test_an_alert_says_that_it_concerns_the_organization_which_may_be_named_as_a_project_is() -> None:
    text = alerts.alert_text(
        one(NotificationType.STORE_DEGRADED, cause=Cause(NotificationType.STORE_DEGRADED)),
        PLACE,
    )
    assert text.startswith("[error] The store cannot be used as it should (organization Example Ltd)\n")


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
    facts = {"users": 1, "names": ("a",), "instead": written}
    text = alerts.alert_text(one(NotificationType.RESOURCE_DEPRECATED, facts=facts), PLACE)
    shown = text.split("\n")[1].replace("\u200b", "|")
    assert shown.partition("may go one day. ")[2].removesuffix(".") == cut[:1].upper() + cut[1:]


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
    targets = (AlertTarget("chat"), AlertTarget("pager"))
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
