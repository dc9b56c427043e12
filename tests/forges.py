"""Deliveries as forges make them: their headers, as documented, and their signatures, made from what is documented and
not with the code under test.

    delivery = forges.github(secret, body)
    daemon.ask("POST", "/hooks/telemetry", delivery.body, delivery.headers)

Bodies are of our own: what they say counts for nothing.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

SECRET = b"canary-secret-of-a-webhook"
SIGNING_TOKEN = b"whsec_" + base64.b64encode(b"canary-signing-token-of-32-bytes")
ID = "f6266f16-1bf3-46a5-9ea4-602e06ead473"


def pushed(identity: str) -> bytes:
    """A body: no two pushes have the same one."""
    return json.dumps({"ref": "refs/heads/main", "before": "0", "after": identity}).encode()


BODY = pushed(ID)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One POST."""

    body: bytes
    headers: Mapping[str, str]

    def but(self, **headers: str | None) -> "Delivery":
        """The same with other headers, `_` in their names for `-`; None leaves one out."""
        changed = {name.replace("_", "-"): value for name, value in headers.items()}
        kept = {name: value for name, value in self.headers.items() if name.lower() not in changed}
        return Delivery(self.body, kept | {name: value for name, value in changed.items() if value is not None})


def github(secret: bytes = SECRET, body: bytes | None = None, *, identity: str = ID, event: str = "push") -> Delivery:
    """GitHub, with the content type application/json."""
    body = pushed(identity) if body is None else body
    return Delivery(
        body,
        {
            "User-Agent": "GitHub-Hookshot/044aadd",
            "Content-Type": "application/json",
            "X-GitHub-Delivery": identity,
            "X-GitHub-Event": event,
            "X-GitHub-Hook-ID": "292430182",
            "X-GitHub-Hook-Installation-Target-ID": "79929171",
            "X-GitHub-Hook-Installation-Target-Type": "repository",
            "X-Hub-Signature": "sha1=" + hmac.new(secret, body, hashlib.sha1).hexdigest(),
            "X-Hub-Signature-256": "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest(),
        },
    )


def github_form(secret: bytes = SECRET, body: bytes | None = None, *, identity: str = ID) -> Delivery:
    """GitHub, with the content type application/x-www-form-urlencoded: what is signed is the form."""
    body = pushed(identity) if body is None else body
    form = github(secret, urlencode({"payload": body}).encode(), identity=identity)
    return form.but(content_type="application/x-www-form-urlencoded")


def gitea(secret: bytes = SECRET, body: bytes | None = None, *, identity: str = ID) -> Delivery:
    """Gitea: it sends what GitHub and Gogs send as well."""
    body = pushed(identity) if body is None else body
    digest = hmac.new(secret, body, hashlib.sha256).hexdigest()
    names = {"Gitea": "X-Gitea", "Gogs": "X-Gogs", "GitHub": "X-GitHub"}
    headers = {
        f"{name}-{part}": value
        for name in names.values()
        for part, value in (("Delivery", identity), ("Event", "push"), ("Event-Type", "push"))
    }
    signatures = {
        "X-Gitea-Signature": digest,
        "X-Gogs-Signature": digest,
        "X-Hub-Signature": "sha1=" + hmac.new(secret, body, hashlib.sha1).hexdigest(),
        "X-Hub-Signature-256": f"sha256={digest}",
    }
    return Delivery(
        body, {"User-Agent": "Go-http-client/1.1", "Content-Type": "application/json"} | headers | signatures
    )


def forgejo(secret: bytes = SECRET, body: bytes | None = None, *, identity: str = ID) -> Delivery:
    """Forgejo: Gitea's, and its own."""
    body = pushed(identity) if body is None else body
    other = gitea(secret, body, identity=identity)
    own = {
        "X-Forgejo-Delivery": identity,
        "X-Forgejo-Event": "push",
        "X-Forgejo-Event-Type": "push",
        "X-Forgejo-Signature": hmac.new(secret, body, hashlib.sha256).hexdigest(),
    }
    return Delivery(body, {**other.headers, **own})


def gitlab(secret: bytes = SECRET, body: bytes | None = None, *, identity: str = ID) -> Delivery:
    """GitLab with a secret token."""
    body = pushed(identity) if body is None else body
    return Delivery(
        body,
        {
            "User-Agent": "GitLab/18.5.0-ee",
            "Content-Type": "application/json",
            "Idempotency-Key": identity,
            "X-Gitlab-Event": "Push Hook",
            "X-Gitlab-Event-UUID": "13792a34-cac6-4fda-95a8-c58e00a3954e",
            "X-Gitlab-Instance": "https://gitlab.example.com",
            "X-Gitlab-Webhook-UUID": "02affd2d-2cba-4033-917d-ec22d5dc4b38",
            "X-Gitlab-Token": secret.decode("latin-1"),
        },
    )


def gitlab_signed(token: bytes = SIGNING_TOKEN, body: bytes | None = None, *, identity: str = ID, at: int) -> Delivery:
    """GitLab with a signing token, at a time in seconds since 1970."""
    body = pushed(identity) if body is None else body
    key = base64.b64decode(token.removeprefix(b"whsec_"))
    signed = f"{identity}.{at}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return gitlab(b"", body, identity=identity).but(
        x_gitlab_token=None, webhook_id=identity, webhook_timestamp=str(at), webhook_signature=f"v1,{signature}"
    )


def every(at: int) -> Mapping[str, tuple[bytes, Callable[[str], Delivery]]]:
    """The secret, and a delivery with an id, of each forge."""
    return {
        "GitHub": (SECRET, lambda identity: github(identity=identity)),
        "GitHub with a form": (SECRET, lambda identity: github_form(identity=identity)),
        "Gitea": (SECRET, lambda identity: gitea(identity=identity)),
        "Forgejo": (SECRET, lambda identity: forgejo(identity=identity)),
        "GitLab with a secret token": (SECRET, lambda identity: gitlab(identity=identity)),
        "GitLab with a signing token": (SIGNING_TOKEN, lambda identity: gitlab_signed(identity=identity, at=at)),
    }
