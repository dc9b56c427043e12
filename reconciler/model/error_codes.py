"""The stable codes of the API's errors. An answer has one for each sentence; programs decide by the code, never by the
sentence.

A code never changes its meaning and is never removed. `docs/api.md` lists them, and a test compares.
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
    PROJECT_BUSY = "project-busy"
    REPOSITORY_UNAVAILABLE = "repository-unavailable"
    QUEUE_FULL = "queue-full"


OF_STATUS = {
    UpdateStatus.INVALID: ErrorCode.RESOURCE_INVALID,
    UpdateStatus.ERROR: ErrorCode.RESOURCE_ERROR,
    UpdateStatus.IN_USE: ErrorCode.RESOURCE_IN_USE,
    UpdateStatus.FORBIDDEN: ErrorCode.RESOURCE_FORBIDDEN,
    UpdateStatus.DEPRECATED: ErrorCode.RESOURCE_DEPRECATED,
    UpdateStatus.NOT_FOUND: ErrorCode.RESOURCE_NOT_FOUND,
}
"""The code of a resource whose status refuses a request."""


MEANINGS: dict[ErrorCode, tuple[str, str]] = {
    ErrorCode.INVALID_REQUEST: ("400", "the request is not HTTP, or not as documented: body, query, path or header"),
    ErrorCode.BODY_TIMEOUT: ("400, 503", "the body did not arrive in time"),
    ErrorCode.NO_CREDENTIAL: ("401", "the request carries no credential"),
    ErrorCode.KEY_REQUIRED: ("401", "the request carries no key, and people sign in through a provider"),
    ErrorCode.UNKNOWN_KEY: ("401", "the key is unknown, revoked or expired"),
    ErrorCode.WRONG_PASSWORD: ("401, 403", "the name or the password is wrong; 403: the present password is another"),
    ErrorCode.PASSWORDS_DISABLED: ("401, 403", "people sign in through a provider, so passwords open nothing"),
    ErrorCode.CREDENTIALS_CONFLICT: ("401", "the credentials of the request mean different callers"),
    ErrorCode.CREDENTIAL_REVOKED: ("401", "the credential was revoked, or the session ended, during the request"),
    ErrorCode.FORBIDDEN: ("403", "the role or the scopes of the caller do not allow this"),
    ErrorCode.OTHER_SITE: ("403", "a browser sends this for a page of another site, or asks for an unknown host"),
    ErrorCode.NOT_FOUND: ("404", "there is no such run, plan, person, key or the like"),
    ErrorCode.PATH_NOT_FOUND: ("404", "there is no such path"),
    ErrorCode.PROJECT_NOT_FOUND: ("404", "there is no such project, or it is out of reach"),
    ErrorCode.PROJECT_REQUIRED: ("404", "the request must choose a project with `X-Service-Project`"),
    ErrorCode.REPOSITORY_NOT_FOUND: ("404", "there is no such repository, or it is out of reach"),
    ErrorCode.KIND_NOT_FOUND: ("404", "there is no such kind"),
    ErrorCode.RESOURCE_NOT_FOUND: ("404", "there is no such resource"),
    ErrorCode.DESTINATION_NOT_FOUND: ("404", "there is no such destination that records are delivered to"),
    ErrorCode.METHOD_NOT_ALLOWED: ("405", "the path takes other methods"),
    ErrorCode.CONFLICT: ("409", "the request contradicts what there is"),
    ErrorCode.REPOSITORY_SUSPENDED: ("409", "the repository is suspended"),
    ErrorCode.NOTHING_HELD: ("409", "nothing is held for approval at this commit"),
    ErrorCode.MERGE_CONFLICT: ("409", "the proposal does not merge; one for each file"),
    ErrorCode.COMMIT_REFUSED: ("409", "the commits of the proposal cannot be read as they are"),
    ErrorCode.NOT_READY: ("409", "the Configuration is incomplete"),
    ErrorCode.RESOURCE_INVALID: ("409", "an atomic apply: this resource is `invalid`"),
    ErrorCode.RESOURCE_ERROR: ("409", "this resource is `error`"),
    ErrorCode.RESOURCE_IN_USE: ("409", "this resource is `in-use`"),
    ErrorCode.RESOURCE_FORBIDDEN: ("403, 409", "this resource is `forbidden`"),
    ErrorCode.RESOURCE_DEPRECATED: ("409", "an atomic apply: this resource is `deprecated`"),
    ErrorCode.VERSION_MISMATCH: ("412", "`If-Match` names neither the version nor the hash that is stored"),
    ErrorCode.TOO_LARGE: ("413, 431", "the body, the request or its head is over a limit"),
    ErrorCode.UNSUPPORTED_ENCODING: ("415", "the `Content-Encoding` is not one that the path takes"),
    ErrorCode.UNSUPPORTED_TYPE: ("415", "the `Content-Type` is not one that the path takes"),
    ErrorCode.TOO_MANY_REQUESTS: ("429", "the caller has too many requests in progress, or sends too fast"),
    ErrorCode.TOO_MANY_ATTEMPTS: ("429", "too many attempts to sign in failed"),
    ErrorCode.INTERNAL: ("500", "the service failed; its log has the cause under the request's id"),
    ErrorCode.RESOURCE_DAMAGED: ("500", "the stored resource is damaged"),
    ErrorCode.TOOK_TOO_LONG: ("500, 503", "the work took longer than it may"),
    ErrorCode.UNAVAILABLE: ("503", "there is no room now; the same request may pass later"),
    ErrorCode.STORE_UNAVAILABLE: ("503", "the store or the disk cannot be read or written now"),
    ErrorCode.PROJECT_BUSY: ("503", "other changes of the project kept this one waiting for too long"),
    ErrorCode.REPOSITORY_UNAVAILABLE: ("503", "the repository cannot be read now"),
    ErrorCode.QUEUE_FULL: ("503", "the queue of a destination is full"),
}
"""With which statuses a code comes, and its meaning."""


def body(sentences: Sequence[str], code: ErrorCode) -> dict[str, object]:
    """Return the error response of the interface, before it is JSON; each sentence has the same code."""
    return {"errors": sentences, "codes": [code] * len(sentences)}
