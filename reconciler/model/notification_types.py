"""Types of notifications and their severities, by name."""

from enum import StrEnum


class NotificationType(StrEnum):
    """The types of notifications (interface, `spec.notificationType`)."""

    REPOSITORY_UNREACHABLE = "RepositoryUnreachable"
    REPOSITORY_HELD = "RepositoryHeld"
    PRUNE_HELD = "PruneHeld"
    RECONCILE_FAILED = "ReconcileFailed"
    RESOURCES_INVALID = "ResourcesInvalid"
    FLOW_STOPPED = "FlowStopped"
    CONFIGURATION_INCOMPLETE = "ConfigurationIncomplete"
    DELIVERY_STALE = "DeliveryStale"
    RESOURCE_DEPRECATED = "ResourceDeprecated"
    DELIVERY_FAILING = "DeliveryFailing"
    DEAD_LETTERS = "DeadLetters"
    QUEUE_NEARLY_FULL = "QueueNearlyFull"
    QUEUE_DAMAGED = "QueueDamaged"
    LOGS_UNROUTED = "LogsUnrouted"
    DISK_LOW = "DiskLow"
    CERTIFICATE_EXPIRING = "CertificateExpiring"
    KEYS_TO_REVIEW = "KeysToReview"
    STORE_DEGRADED = "StoreDegraded"
    STORE_DAMAGED = "StoreDamaged"
    SESSIONS_LOST = "SessionsLost"
    REPLICA_GONE = "ReplicaGone"
    TOO_MANY_OPEN_FILES = "TooManyOpenFiles"


class Severity(StrEnum):
    """The severity of a notification (interface, `spec.severity`), the lowest first."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"

    @property
    def weight(self) -> int:
        """Its position in this order."""
        return list(Severity).index(self)
