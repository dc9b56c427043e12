"""Sentences of notifications: what happened, what it means, what to do."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from reconciler.model.clock import rfc3339
from reconciler.model.notification_types import NotificationType
from reconciler.model.text import counted, visible
from reconciler.notifications.models import Facts, Notification

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
    """What a notification says, as long as its cause is there and afterwards."""
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

    def names(self, name: str, *, of: int, most: int = NAMED) -> str:
        """`a, b, c and 2 more`."""
        value = self._facts.get(name, ())
        found: Sequence[str] = value if isinstance(value, tuple) else ()
        shown = [visible(one)[:MOST] for one in found[:most]]
        rest = of - len(shown)
        if rest > 0:
            return f"{', '.join(shown)} and {rest} more"
        return ", ".join(shown)

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
    """What is told of what is held, with the repository's name behind the command in it."""
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


# What each type of notification is about, for people: when there is one, what it means, what to do.


class TypeExplanation(NamedTuple):
    """Sentences of plain text; what stands between backticks is typed or read as it is."""

    when: str
    means: str
    todo: str


EXPLAINED: Mapping[NotificationType, TypeExplanation] = MappingProxyType(
    {
        NotificationType.REPOSITORY_UNREACHABLE: TypeExplanation(
            "A repository cannot be read (`unreachable`): its remote does not answer, its folder is gone, or the disk "
            "of the service is full. Or the remote refuses the credentials (`unauthorized`).",
            "What was applied last stays and is served; new commits are not seen.",
            "The message says what to mend; it is tried again by itself. Where credentials are refused, put the right "
            "ones into their files: they are read at each look.",
        ),
        NotificationType.REPOSITORY_HELD: TypeExplanation(
            "A repository can be read, and its head cannot be applied: the branch or the folder is missing, it holds "
            "no resource, its history has nothing in common with the one before, nobody who may has signed it, or its "
            "format is not known.",
            "What was applied last stays and is served; nothing of the head is taken over, or nothing is deleted.",
            "Put back what is missing, correct the settings, or release it with `reconciler approve REPOSITORY`.",
        ),
        NotificationType.PRUNE_HELD: TypeExplanation(
            "A commit would delete more than the budget allows or most of a repository, a document in the file of a "
            "resource that is gone is refused, or a file cannot be read.",
            "Everything else of the commit is applied, and what is held stays.",
            "Restore what is gone, mend the file that is named, or let it go with `reconciler approve REPOSITORY`.",
        ),
        NotificationType.RECONCILE_FAILED: TypeExplanation(
            "A run ended with a fault that is not the remote's: the store or the disk could not be used, or the mirror "
            "cannot be mended.",
            "What was applied last stays and is served; the run is tried again by itself.",
            "Mend what the message names; `reconciler doctor` looks at the disk, the store and the permissions.",
        ),
        NotificationType.RESOURCES_INVALID: TypeExplanation(
            "The head of a repository holds resources that are not stored as it says: `invalid`, `error`, `forbidden`, "
            "or to be deleted and `in-use`. There is one notification for each repository, however many they are.",
            "Of these resources the versions of before stay and are served. Where the repository is `atomic`, nothing "
            "of the commit is stored.",
            "`reconciler status` and `reconciler runs --last REPOSITORY` name each with file, line and reason; mend "
            "them in Git.",
        ),
        NotificationType.CONFIGURATION_INCOMPLETE: TypeExplanation(
            "Resources of a project miss parameters or hold wrong ones, or use what does; they were stored with "
            "`acceptInvalid`, or a type changed. There is one notification for each project, which names them.",
            "Configurations among them have `status.ready: false`: they are not rolled out, and nothing is delivered "
            "for them, save by a last good route (`DeliveryStale`).",
            "`status.incomplete` of each says what is missing; complete it.",
        ),
        NotificationType.DELIVERY_STALE: TypeExplanation(
            "Configurations of a project delivered, and cannot by their present version: something in it is wrong, or "
            "is nothing that the service runs. There is one notification for each project.",
            "The last version that delivered stays in force. Where a later version names another endpoint or other "
            "headers, nothing is sent and records wait in the queue.",
            "`status.delivery` of each says why: `stale.reason`, or `reason` where records wait. Correct it.",
        ),
        NotificationType.RESOURCE_DEPRECATED: TypeExplanation(
            "A resource that says `deprecated: true` of itself is used by others.",
            "It works as before. Whoever deprecated it may remove it one day.",
            "Use what replaces it: the message ends with its own `metadata.additionalInfo.message`, which says so.",
        ),
        NotificationType.DELIVERY_FAILING: TypeExplanation(
            "The endpoint of a destination is down, or for 30 seconds it took nothing that was sent to it: it does not "
            "answer, or refuses all of it.",
            "Log records wait in its queue and are tried again; without a queue their senders keep them and send them "
            "again. What a queue could not deliver for too long becomes a dead letter.",
            "The message says what came back; `reconciler send-test DESTINATION` tries it now, and what waits goes "
            "once its record arrives.",
        ),
        NotificationType.DEAD_LETTERS: TypeExplanation(
            "A destination has dead letters: batches that were given up.",
            "They are kept for `delivery.deadLetters.maxAge`, and go then.",
            "Mend what refused them, then `reconciler queue replay DESTINATION`, or `reconciler queue discard "
            "DESTINATION`.",
        ),
        NotificationType.QUEUE_NEARLY_FULL: TypeExplanation(
            "The queue of a destination holds four fifths of what it takes, of batches or of bytes. It is over below "
            "three fifths.",
            "Once it is full, log records are refused, or dropped or made dead letters where `on_full` says so.",
            "Mend the endpoint; give the queue more room with `sending_queue_queue_size`, or `max_bytes` of its "
            "Extension.",
        ),
        NotificationType.QUEUE_DAMAGED: TypeExplanation(
            "The disk damaged a file of a destination's queue, or batches in it could not be read since the start"
            " of the service. Dead letters count too.",
            "What can be read of a damaged file is sent as ever, and the file is kept in the folder `quarantine` "
            "of the queue. Batches that cannot be read are lost with their records.",
            "Look at the disk; `reconciler queue status` and `reconciler doctor` say more. It is over when the "
            "files are removed and the service was restarted.",
        ),
        NotificationType.LOGS_UNROUTED: TypeExplanation(
            "Log records came to a project of which no Configuration takes them. It is over when none came for a "
            "quarter of an hour, which begins again with a start of the service.",
            "They were refused and are kept nowhere.",
            "`status.delivery` of each Configuration says whether it delivers and why not; correct it, or the senders.",
        ),
        NotificationType.DISK_LOW: TypeExplanation(
            "A disk is down to `delivery.freeBytes`, or has less than 128 MiB more than that: that of `stateDir` (with "
            "mirrors, queues and `ops.db`, which may be on disks of their own) or of the store. There is one "
            "notification for each disk.",
            "Once it is full, nothing can be written there; on the disk of the queues, log records are refused below "
            "`delivery.freeBytes`.",
            "Make room on that disk.",
        ),
        NotificationType.CERTIFICATE_EXPIRING: TypeExplanation(
            "A certificate ends within 14 days, or has ended: the listener's, the client certificate of a destination, "
            "or the last authority in `outbound.caFile`, in `credentials.caFile` of a repository or in `ca_file` of a "
            "destination.",
            "From then on, connections that need it fail.",
            "Renew it. The listener's is taken over by `systemctl reload reconciler`, which looks at all of them at "
            "once, those of destinations by the next request, that of a repository by its next look, "
            "`outbound.caFile` by a restart.",
        ),
        NotificationType.KEYS_TO_REVIEW: TypeExplanation(
            "Somebody who made keys of a project, or of the organization, was removed or is no admin there any more. "
            "There is one notification for each maker in each project; admins of the project see it, and of the "
            "organization's keys its admins.",
            "The keys open what they opened before, and whoever made them may know them. People's own keys are not "
            "among them: those end with the person.",
            "Make a new key for what still needs one, and end the old one with `reconciler key revoke ID`. It is over "
            "once these keys are revoked or have ended; dismiss it where they may stay.",
        ),
        NotificationType.STORE_DEGRADED: TypeExplanation(
            "The store could not be read, or a change could not be written to it, or to `ops.db`.",
            "What is stored is served as long as it can be read, and changes are refused.",
            "Look at the disk and its permissions; `reconciler doctor` says what is wrong.",
        ),
        NotificationType.STORE_DAMAGED: TypeExplanation(
            "A stored version of a resource does not have its checksum: the disk or the memory changed it. It is found "
            "when the version is read or compared, and by a look through the store at each start and once a day.",
            "Such a version is neither served nor compared as if it were what was stored; everything else is.",
            "What Git owns is restored by the next full read (`fullInterval`, or a changed setting of its repository); "
            "apply the rest anew, or restore a backup. Then look at the disk: there may be more to come.",
        ),
        NotificationType.SESSIONS_LOST: TypeExplanation(
            "`ops.db` was damaged when the service started. It was set aside under another name, and a new one "
            "took its place.",
            "Everybody had to sign in again. Who had read or dismissed which notification is lost, and so are "
            "alerts that waited. Resources, people and keys are in the store, and none of them is lost.",
            "Look at the disk. It is over when the file that the message names is removed or moved away.",
        ),
        NotificationType.TOO_MANY_OPEN_FILES: TypeExplanation(
            "The service has nine tenths of the files open that it may open, connections included. It is over "
            "below three quarters.",
            "At the limit, connections are closed unanswered, and no file of a queue, a repository or the store "
            "can be opened.",
            "Raise `LimitNOFILE` in the unit, or `ulimit -n` where the service is started; `reconciler doctor` "
            "shows the limit.",
        ),
    }
)
