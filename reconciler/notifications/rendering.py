"""Notifications as sentences and as JSON: what happened, what it means, what to do."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from reconciler.model.clock import rfc3339
from reconciler.model.notification_types import NotificationType
from reconciler.model.text import counted, visible
from reconciler.notifications.models import Facts, Notification, UserStatus

# The sentences of notifications: what happened, what it means, what to do. Pure.
#
# A fact may be anybody's text, so it is bounded and made visible before it becomes part of a sentence.

MOST = 500  # characters of one fact
NAMED = 5  # names in a sentence; the rest is counted
LISTED = 50  # the same, where each of them is to be decided on
UNNAMED = ("", "default")  # projects that a command need not name


class NotificationText(NamedTuple):
    """A line for a list, and the sentences that tell the whole."""

    title: str
    message: str


def text_of(one: Notification) -> NotificationText:
    """Return the text of a notification, as long as its cause is there and afterwards."""
    facts = {**one.facts, "subject": one.cause.subject, "project": one.cause.project}
    title, message = _SAID[one.cause.type](_Text(facts))
    again = ""
    if one.occurrences > 1:
        again = f" It has come {counted(one.occurrences, 'time')} since {rfc3339(one.opened)}."
    if one.resolved is None:
        return NotificationText(title, f"{message}{again}")
    return NotificationText(f"Resolved: {title}", f"Over since {rfc3339(one.resolved)}; it was: {message}{again}")


class _Text:
    """Facts as parts of a sentence."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def __getitem__(self, name: str) -> str:
        value = self._facts.get(name, "")
        shown = visible(str(value))
        return shown if len(shown) <= MOST else f"{shown[: MOST - 1]}…"

    def number(self, name: str) -> int:
        value = self._facts.get(name, 0)
        return value if isinstance(value, int) else 0

    def names(self, name: str, *, of: int, most: int = NAMED, between: str = ", ") -> str:
        """`a, b, c and 2 more`."""
        value = self._facts.get(name, ())
        found: Sequence[str] = value if isinstance(value, tuple) else ()
        shown = [visible(one)[:MOST] for one in found[:most]]
        rest = of - len(shown)
        if rest > 0:
            return f"{between.join(shown)} and {rest} more"
        return between.join(shown)

    def sentence(self, name: str) -> str:
        """A sentence of the service's own, or of git's, with an end."""
        text = self.ended(name)
        return text[:1].upper() + text[1:]

    def ended(self, name: str) -> str:
        """The same as the rest of a sentence."""
        text = self[name].strip()
        return text if not text or text[-1] in ".!?…" else f"{text}."


def _typed(text: _Text, command: str) -> str:
    """A command about what a project has, as it is typed. One about a repository finds the project by itself."""
    project = text["project"]
    return f"`reconciler {command} {text['subject']}{'' if project in UNNAMED else f' --project {project}'}`"


def _released(text: _Text, told: str) -> str:
    """Add the repository's name behind the command in a message about a held change."""
    return told.replace("`reconciler approve`", f"`reconciler approve {text['subject']}`")


STAYS = "What was applied last stays and is served; nothing newer is."

_HELD: Mapping[str, str] = MappingProxyType(  # what messages of these states do not say; those of all others do
    {
        "path-missing": "If it is gone on purpose, release it with `reconciler approve`.",
        "unsigned": "Have the head signed by one of the allowed signers, or add the signer to their file.",
    }
)

_UNREACHABLE = {
    "unauthorized": "Mend its credentials: their files are read again at each look, so that nothing need be restarted."
}


def _repository_unreachable(text: _Text) -> NotificationText:
    todo = _UNREACHABLE.get(text["state"], "It is tried again by itself.")  # the message says what to mend
    return NotificationText(
        f"The repository {text['subject']} cannot be read", f"{text.sentence('message')} {STAYS} {todo}".strip()
    )


def _repository_held(text: _Text) -> NotificationText:
    title = f"Nothing is taken over from the repository {text['subject']} ({text['state']})"
    todo = _HELD.get(text["state"], "")
    return NotificationText(title, _released(text, f"{text.sentence('message')} {STAYS} {todo}").strip())


def _prune_held(text: _Text) -> NotificationText:
    return NotificationText(
        f"Deletions of the repository {text['subject']} are held",
        f"{_released(text, text.sentence('message'))} Everything else of the commit is applied.",
    )


def _reconcile_failed(text: _Text) -> NotificationText:
    return NotificationText(
        f"The repository {text['subject']} could not be reconciled",
        f"{text.sentence('message')} {STAYS} `reconciler runs --last {text['subject']}` shows what was tried; mend "
        "what is named, and it is tried again.",
    )


def _resources_invalid(text: _Text) -> NotificationText:
    total = text.number("total")
    counts = ", ".join(f"{text.number(status)} {status}" for status in REFUSED if text.number(status))
    are, them, each = ("is", "it", "it") if total == 1 else ("are", "them", "each")
    first = text.ended("first")
    why = f"{'; ' if total == 1 else '. The first: '}{first}" if first else "."
    stays = f"What was stored of {them} before stays and is served."
    if text.number("refused"):
        stays = f"The repository is atomic, so nothing of the commit is stored. {STAYS}"
    return NotificationText(
        f"{counted(total, 'resource')} of the repository {text['subject']} {are} not stored as Git says",
        f"{counts}: {text.names('names', of=total)}{why} {stays} "
        f"`reconciler runs --last {text['subject']}` names {each} with file, line and reason; mend {them} in Git.",
    )


def _flow_stopped(text: _Text) -> NotificationText:
    total = text.number("total")
    return NotificationText(
        f"{counted(total, 'flow')} ended with the commit {text['commit']} of the repository {text['repository']}",
        f"Log records are not delivered there any more: {text.names('names', of=total, between='; ')}. If that is not "
        f"meant, mend it in Git; `reconciler runs --last {text['repository']}` says more. This is over when "
        f"{'the flow delivers' if total == 1 else 'all of them deliver'} again, or after a day.",
    )


def _configuration_incomplete(text: _Text) -> NotificationText:
    total, others = text.number("total"), text.number("others")
    if others:
        return _resources_incomplete(text, total=total, others=others)
    are, they = ("is", "It is") if total == 1 else ("are", "They are")
    return NotificationText(
        f"{counted(total, 'Configuration')} of the project {text['project']} {are} incomplete",
        f"Parameters are missing or wrong in {text.names('names', of=total)}, or in a component that is used there. "
        f"{they} not rolled out and nothing is delivered for {'it' if total == 1 else 'them'}, save by a last good "
        "route. `status.incomplete` of each names what to complete.",
    )


def _resources_incomplete(text: _Text, *, total: int, others: int) -> NotificationText:
    """Of an earlier version, facts have no `others`."""
    held = f" Configurations that use them are not rolled out: {text.names('names', of=total)}." if total else ""
    return NotificationText(
        f"{counted(total + others, 'resource')} of the project {text['project']} "
        f"{'is' if total + others == 1 else 'are'} incomplete",
        f"Parameters are missing or wrong in {text.names('other_names', of=others)}, or in a component that is used "
        f"there.{held} `status.incomplete` of each names what to complete.",
    )


def _delivery_stale(text: _Text) -> NotificationText:
    total = text.number("total")
    its = "its" if total == 1 else "their"
    return NotificationText(
        f"{counted(total, 'Configuration')} of the project {text['project']} cannot deliver by {its} present version",
        f"An earlier version stays in force for {text.names('names', of=total)}, or records wait there, since a later "
        "version named another endpoint. `status.delivery` of each says why; correct it.",
    )


def _resource_deprecated(text: _Text) -> NotificationText:
    users = text.number("users")
    instead = text.sentence("instead") or "Nothing says what replaces it; ask whoever deprecated it."
    return NotificationText(
        f"{text['subject']} is deprecated and in use",
        f"{counted(users, 'resource')} of the project {text['project']} {'uses' if users == 1 else 'use'} it: "
        f"{text.names('names', of=users)}. It works as before, and may go one day. {instead}",
    )


def _delivery_failing(text: _Text) -> NotificationText:
    """`inline` is 1 for a destination without a queue."""
    waits = "Log records wait in its queue, and the endpoint is tried again and again by itself."
    if text.number("inline"):
        waits = (
            "It has no queue: senders are refused, keep their log records and send them again; now and then one of "
            "their requests is let through, to find out whether the endpoint is back."
        )
    return NotificationText(
        f"Nothing gets through to the destination {text['subject']}",
        f"{text.sentence('cause') or 'Its endpoint does not take what is sent.'} {waits} "
        f"{_typed(text, 'send-test')} tries it now.",
    )


def _dead_letters(text: _Text) -> NotificationText:
    letters = text.number("batches")
    return NotificationText(
        f"The destination {text['subject']} has dead letters",
        f"{counted(letters, 'batch', 'batches')} of log records could not be delivered and "
        f"{'is' if letters == 1 else 'are'} kept for a while. Mend what refused them, then "
        f"{_typed(text, 'queue replay')}; "
        f"{_typed(text, 'queue status')} says why.",
    )


def _queue_nearly_full(text: _Text) -> NotificationText:
    percent = text.number("percent")
    full, happens = "nearly full", f"It is at {percent} percent or more of what it takes. Once it is full, records are"
    if percent >= 100:
        full, happens = "full", "It takes no more: records are now"
    return NotificationText(
        f"The queue of the destination {text['subject']} is {full}",
        f"{happens} refused, or dropped or made dead letters where `on_full` says so. {_typed(text, 'queue status')} "
        "says why; mend the endpoint, or give the queue more room (`sending_queue_queue_size`, `max_bytes` of its "
        "Extension).",
    )


def _queue_damaged(text: _Text) -> NotificationText:
    files, lost = text.number("files"), text.number("lost")
    told = []
    if files:
        is_, it = ("is", "it") if files == 1 else ("are", "them")
        told.append(
            f"{counted(files, 'damaged file')} of its queue {is_} in the folder `quarantine` of the queue. What can be "
            f"read of {it} is sent."
        )
    if lost:
        them = "it and its" if lost == 1 else "they and their"
        told.append(
            f"{counted(lost, 'batch', 'batches')} could not be read since the start of the service: {them} records are "
            "lost."
        )
    return NotificationText(
        f"The queue of the destination {text['subject']} is damaged",
        f"{' '.join(told)} Look at the disk. {_typed(text, 'queue status')} says more; remove the files when nobody "
        "needs them, and restart the service.",
    )


def _logs_unrouted(text: _Text) -> NotificationText:
    return NotificationText(
        f"Nobody takes log records that were sent to the project {text['project']}",
        "No Configuration takes them, so they are refused and kept nowhere. `status.delivery` of each Configuration "
        "says whether it delivers and which records it takes; correct it, or the senders.",
    )


def _disk_low(text: _Text) -> NotificationText:
    has_queues = text.number("queues")
    if text.number("beyond"):
        refused = ", so that log records are refused" if has_queues else ""
        happened = f"It has less room than `delivery.freeBytes` leaves free{refused}. Once it is full, nothing can be"
    else:
        refused = "; below that, log records are refused" if has_queues else ""
        happened = f"It has little more room than `delivery.freeBytes`{refused}. Once it is full, nothing can be"
    return NotificationText(
        f"The disk of {text['folder']} is nearly full",
        f"{happened} written there any more. Make room on it; `reconciler doctor` says what takes it.",
    )


def _certificate_expiring(text: _Text) -> NotificationText:
    is_over = text.number("expired")
    verb = "expired" if is_over else "expires"
    then = "Connections that need it fail." if is_over else "From then on connections that need it fail."
    return NotificationText(
        f"{text['what']} {verb} on {text['until']}",
        f"{text['what']} ({text['subject']}) {verb} on {text['until']}. {then} {text['todo']}",
    )


def _keys_to_review(text: _Text) -> NotificationText:
    total, project = text.number("total"), text["project"]
    whose = f"the project {project}" if project else "the organization"
    is_, they, them = ("is", "It opens", "it") if total == 1 else ("are", "They open", "them")
    return NotificationText(
        f"{counted(total, 'key')} of {whose} {is_} to be reviewed: {text['subject']} is no admin there any more",
        f"Made by {text['subject']}, who may know {them}: {text.names('names', of=total, most=LISTED)}. {they} what "
        f"{'it' if total == 1 else 'they'} opened before. Make a new key for what still needs one, and end the old one "
        "with `reconciler key revoke ID`; dismiss this where a key may stay.",
    )


def _store_degraded(text: _Text) -> NotificationText:
    return NotificationText(
        "The store cannot be used as it should",
        f"{text.sentence('message')} What was stored is served as long as it can be read, and changes are refused "
        "until it can be written. Look at the disk and its permissions; `reconciler doctor` says what is wrong.",
    )


def _store_damaged(text: _Text) -> NotificationText:
    total = text.number("total")
    is_, it = ("is", "it") if total == 1 else ("are", "them")
    return NotificationText(
        f"{counted(total, 'stored version')} of resources {is_} damaged",
        f"{text.names('names', of=total)}: the store holds something else than was stored. The next full read of its "
        "repository (`fullInterval`) restores what Git owns; apply the rest anew, or restore a backup. "
        f"Nothing serves {it} meanwhile. Look at the disk of the store.",
    )


def _sessions_lost(text: _Text) -> NotificationText:
    return NotificationText(
        "The database of sessions and notifications was damaged and is a new one",
        f"The damaged file is {text['subject']}. Everybody had to sign in again; who had read or dismissed which "
        "notification is lost, and so are alerts that waited. Look at the disk, and remove the file when nobody needs "
        "it.",
    )


def _too_many_open_files(text: _Text) -> NotificationText:
    return NotificationText(
        "The service has too many files open",
        f"It has {text.number('percent')} percent or more of {text.number('most'):,} open. At the limit, it refuses "
        "connections, and opens no file of a queue, a repository or the store. Raise `LimitNOFILE` in its unit, or "
        "`ulimit -n` where it is started.",
    )


REFUSED = ("invalid", "error", "in-use", "forbidden")
"""The statuses that ResourcesInvalid counts, in the order of its sentence."""

_SAID: Mapping[NotificationType, Callable[[_Text], NotificationText]] = MappingProxyType(
    {
        NotificationType.REPOSITORY_UNREACHABLE: _repository_unreachable,
        NotificationType.REPOSITORY_HELD: _repository_held,
        NotificationType.PRUNE_HELD: _prune_held,
        NotificationType.RECONCILE_FAILED: _reconcile_failed,
        NotificationType.RESOURCES_INVALID: _resources_invalid,
        NotificationType.FLOW_STOPPED: _flow_stopped,
        NotificationType.CONFIGURATION_INCOMPLETE: _configuration_incomplete,
        NotificationType.DELIVERY_STALE: _delivery_stale,
        NotificationType.RESOURCE_DEPRECATED: _resource_deprecated,
        NotificationType.DELIVERY_FAILING: _delivery_failing,
        NotificationType.DEAD_LETTERS: _dead_letters,
        NotificationType.QUEUE_NEARLY_FULL: _queue_nearly_full,
        NotificationType.QUEUE_DAMAGED: _queue_damaged,
        NotificationType.LOGS_UNROUTED: _logs_unrouted,
        NotificationType.DISK_LOW: _disk_low,
        NotificationType.CERTIFICATE_EXPIRING: _certificate_expiring,
        NotificationType.KEYS_TO_REVIEW: _keys_to_review,
        NotificationType.STORE_DEGRADED: _store_degraded,
        NotificationType.STORE_DAMAGED: _store_damaged,
        NotificationType.SESSIONS_LOST: _sessions_lost,
        NotificationType.TOO_MANY_OPEN_FILES: _too_many_open_files,
    }
)


# The explanations of the types for people, in `types.md`: when there is one, what it means, what to do.


class TypeExplanation(NamedTuple):
    """Paragraphs of plain text; backticks enclose what is typed or read as it is."""

    when: str
    means: str
    todo: str


@cache
def explanations() -> Mapping[NotificationType, TypeExplanation]:
    """Return the explanation of each type, in the order of the page that shows them."""
    text = (resources.files("reconciler.notifications") / "types.md").read_text(encoding="utf-8")
    found = {}
    for section in text.removeprefix("### ").split("\n### "):
        name, *paragraphs = [" ".join(part.split()) for part in section.split("\n\n")]
        found[NotificationType(name)] = TypeExplanation(*paragraphs)
    return found


# A notification as the API shows it (interface, Notification resource). Pure.

API_VERSION = "service/v1"
KIND = "Notification"
PAGE = "/docs/notifications"  # of the service itself

_canonical = msgspec.json.Encoder(order="sorted")
_encoder = msgspec.json.Encoder()


class NotificationPlace(NamedTuple):
    """The organization's name, and the URL at which people reach the service, which may be empty."""

    organization: str
    web_url: str = ""


def render(one: Notification, place: NotificationPlace, status: UserStatus) -> bytes:
    """Return a notification as JSON, as somebody sees it who gave it this status."""
    spec = _spec(one, place, is_hidden=status is UserStatus.DISMISSED)
    said, url = text_of(one), type_link(one.cause.type, place)
    metadata: dict[str, Any] = {
        "id": one.id,
        "name": f"{one.cause.type}-{one.id}",
        "displayName": said.title,
        "description": said.title,
        # Facts that programs may need and the interface has no member for. Values follow the rule of labels.
        "labels": {
            "service/state": one.state.value,
            "service/since": f"{one.began.astimezone(UTC):%Y%m%dT%H%M%SZ}",  # ISO 8601 as far as a label may hold it
            "service/occurrences": str(one.occurrences),
            "service/cause": hashlib.sha256(_canonical.encode(one.cause)).hexdigest()[:32],
        },
        "version": one.version,
        "dateModified": rfc3339(one.modified),
        "deprecated": False,
        "stability": "stable",
        "resourceDocLink": url,
        "additionalInfo": {
            "message": said.message,
            "documentation": [{"text": f"{one.cause.type}: what it means and what to do", "url": url}],
        },
        "hash": hashlib.sha256(_canonical.encode(spec)).hexdigest(),
    }
    whole = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": spec,
        "status": {"userStatus": status},
    }
    return _encoder.encode(whole)


def type_link(type_: NotificationType, place: NotificationPlace) -> str:
    """The URL of the page of this service that explains a type."""
    return f"{place.web_url.rstrip('/')}{PAGE}#{type_.value.lower()}"


def _spec(one: Notification, place: NotificationPlace, *, is_hidden: bool) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "notificationType": one.cause.type.value,
        "severity": one.severity.value,
        "scope": one.cause.scope.value,
        "organization": place.organization,
        "account": one.cause.project,
        "userId": one.cause.user,
        "recommendationId": one.cause.type.value.lower(),
    }
    return {**{name: value for name, value in spec.items() if value}, "hidden": is_hidden}
