"""What each type of notification is about, for people: when there is one, what it means, what to do.

Belongs here: the sentences of the page that every notification leads to; docs/notifications.md has the same. Does not:
what one notification says (`texts`).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from reconciler.model.notification_types import NotificationType


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
    }
)
