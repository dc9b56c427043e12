"""The stable codes of the API's errors. An answer has one for each sentence; programs decide by the code, never by the
sentence.

A code never changes its meaning and is never removed. `docs/api.md` says what each means and with which statuses it
comes; a test compares.
"""

from collections.abc import Sequence
from enum import StrEnum

from reconciler.model.outcomes import UpdateStatus


class ErrorCode(StrEnum):
    """The cause of an error."""

    # 400
    INVALID_REQUEST = "invalid-request"
    BODY_TIMEOUT = "body-timeout"
    # 401
    NO_CREDENTIAL = "no-credential"
    KEY_REQUIRED = "key-required"
    UNKNOWN_KEY = "unknown-key"
    WRONG_PASSWORD = "wrong-password"  # noqa: S105 - a code and no password
    PASSWORDS_DISABLED = "passwords-disabled"
    CREDENTIALS_CONFLICT = "credentials-conflict"
    CREDENTIAL_REVOKED = "credential-revoked"
    PEER_REFUSED = "peer-refused"
    # 403
    FORBIDDEN = "forbidden"
    OTHER_SITE = "other-site"
    # 404
    NOT_FOUND = "not-found"
    PATH_NOT_FOUND = "path-not-found"
    PROJECT_NOT_FOUND = "project-not-found"
    PROJECT_REQUIRED = "project-required"
    REPOSITORY_NOT_FOUND = "repository-not-found"
    KIND_NOT_FOUND = "kind-not-found"
    RESOURCE_NOT_FOUND = "resource-not-found"
    DESTINATION_NOT_FOUND = "destination-not-found"
    NOT_RENDERED = "not-rendered"
    # 405
    METHOD_NOT_ALLOWED = "method-not-allowed"
    # 409
    CONFLICT = "conflict"
    REPOSITORY_SUSPENDED = "repository-suspended"
    NOTHING_HELD = "nothing-held"
    MERGE_CONFLICT = "merge-conflict"
    COMMIT_REFUSED = "commit-refused"
    NOT_READY = "not-ready"
    # 409 and 403: of one resource
    RESOURCE_INVALID = "resource-invalid"
    RESOURCE_ERROR = "resource-error"
    RESOURCE_IN_USE = "resource-in-use"
    RESOURCE_FORBIDDEN = "resource-forbidden"
    RESOURCE_DEPRECATED = "resource-deprecated"
    # 412
    VERSION_MISMATCH = "version-mismatch"
    # 413, 415, 431
    TOO_LARGE = "too-large"
    UNSUPPORTED_ENCODING = "unsupported-encoding"
    UNSUPPORTED_TYPE = "unsupported-type"
    # 429
    TOO_MANY_REQUESTS = "too-many-requests"
    TOO_MANY_ATTEMPTS = "too-many-attempts"
    # 500
    INTERNAL = "internal"
    RESOURCE_DAMAGED = "resource-damaged"
    TOOK_TOO_LONG = "took-too-long"
    # 503
    UNAVAILABLE = "unavailable"
    STORE_UNAVAILABLE = "store-unavailable"
    REVISION_UNKNOWN = "revision-unknown"
    PROJECT_BUSY = "project-busy"
    REPOSITORY_UNAVAILABLE = "repository-unavailable"
    QUEUE_FULL = "queue-full"
    REPLICA_UNAVAILABLE = "replica-unavailable"


OF_STATUS = {
    UpdateStatus.INVALID: ErrorCode.RESOURCE_INVALID,
    UpdateStatus.ERROR: ErrorCode.RESOURCE_ERROR,
    UpdateStatus.IN_USE: ErrorCode.RESOURCE_IN_USE,
    UpdateStatus.FORBIDDEN: ErrorCode.RESOURCE_FORBIDDEN,
    UpdateStatus.DEPRECATED: ErrorCode.RESOURCE_DEPRECATED,
    UpdateStatus.NOT_FOUND: ErrorCode.RESOURCE_NOT_FOUND,
}
"""The code of a resource whose status refuses a request."""


def body(sentences: Sequence[str], code: ErrorCode) -> dict[str, object]:
    """Return the error response of the interface, before it is JSON; each sentence has the same code."""
    return {"errors": sentences, "codes": [code] * len(sentences)}
