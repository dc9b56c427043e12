"""Attacks by somebody who reaches the listener and has no key, or has one and hides a second request behind it."""

import base64
import gzip
import hashlib
import hmac
import re

from tests.scenarios.attacks.scene import API_KEY, HOOK_SECRET, Scene
from tests.scenarios.attacks.table import Attack, Attempt, Holds

KEY = b"Authorization: Bearer " + API_KEY.encode() + b"\r\n"
WRONG_KEY = b"x" * len(API_KEY)
END = b"Host: x\r\nConnection: close\r\n\r\n"
SECOND = b"GET /v1/version HTTP/1.1\r\n" + END
NO_KEY = (
    "401 Say who asks: a key as `Authorization: Bearer <key>` or `X-Service-Api-Key: <key>`, or a name and a "
    "password as "
    "`Authorization: Basic`."
)
IN_URL = (
    "400 A key or an invitation code does not belong in a URL, where logs keep it: send it in a header, revoke this "
    "one, and make another."
)
NO_BASIC = "400 The header Authorization is not `Basic` with a name, a colon and a password in base64."
ANOTHER_SITE = (
    "403 A browser sent this for a page of another site; only pages of this service may change anything. Behind a "
    "proxy, set `webURL` to the address that people use."
)
UNKNOWN_KEY = "401 The key is not known."
WRONG_PASSWORD = "401 The name or the password is wrong."
RAW = b"/v1/resources/Configuration/fleet-wide/raw"
NO_HTTP = "400 The request is not HTTP."
NO_HOOK = "404 There is no such hook, or this delivery is not signed with its secret; the service's log says which."


def sending(request: bytes) -> Attempt:
    """Bytes on a connection."""
    return lambda scene: scene.raw(request)


def getting(path: bytes, *headers: bytes) -> Attempt:
    """A GET."""
    return sending(b"GET " + path + b" HTTP/1.1\r\n" + b"".join(header + b"\r\n" for header in headers) + END)


def as_password(text: str) -> bytes:
    """The header of HTTP Basic with this in it."""
    return b"Authorization: Basic " + base64.b64encode(text.encode())


def guesses(scene: Scene) -> str:
    """Keys as passwords, cut and changed, with the name of an admin; each answer once."""
    key = scene.keys["admin"]
    guessed = ("rck_", "rck_*", key[:20], key[:-1], key[:-1] + "!", key.upper(), f"{key}\0", key * 2)
    told = {getting(RAW, as_password(f"admin:{one}"))(scene) for one in guessed if one.startswith("rck_")}
    return "\n".join(sorted(told))


def applying(*headers: bytes, then: bytes = b"") -> Attempt:
    """An apply with the key, and more bytes behind it."""
    head = b"POST /v1/apply HTTP/1.1\r\nHost: x\r\n" + KEY + b"".join(header + b"\r\n" for header in headers)
    return sending(head + b"\r\n" + then)


def delivering(*headers: bytes, to: bytes = b"platform", length: int = 2) -> Attempt:
    """A delivery to a hook."""
    own = (*headers, b"X-GitHub-Event: push", b"Content-Length: %d" % length)
    return sending(b"POST /hooks/" + to + b" HTTP/1.1\r\n" + b"".join(one + b"\r\n" for one in own) + END + b"{}")


def _chunked(name: bytes = b"Transfer-Encoding: chunked", *more: bytes) -> Attempt:
    """A body that ends at once for who reads chunks, and goes on for who counts bytes."""
    return applying(name, *more, then=b"0\r\n\r\n" + SECOND)


def bomb(scene: Scene) -> str:
    """A body of 35 kB that stands for 12 million resources."""
    packed = gzip.compress(b'{"resources":[' + b"{}," * 12_000_000 + b"{}]}", compresslevel=9, mtime=0)
    assert len(packed) < 40_000
    length = b"Content-Length: %d" % len(packed)
    return applying(b"Content-Encoding: gzip", length, b"Connection: close", then=packed)(scene)


def _row(name: str, attempt: Attempt, answer: str | re.Pattern[str]) -> Attack:
    return Attack(name, Holds.NETWORK, attempt, answer)


_KEYS = (
    _row("no key", getting(b"/v1/runs"), NO_KEY),
    _row("events without a key", getting(b"/v1/events"), NO_KEY),
    _row("the key in the query", getting(b"/v1/runs?api_key=" + API_KEY.encode()), IN_URL),
    _row("the key in a cookie", getting(b"/v1/runs", b"Cookie: key=" + API_KEY.encode()), NO_KEY),
    _row("the key as Basic", getting(b"/v1/runs", b"Authorization: Basic " + API_KEY.encode()), NO_BASIC),
    _row("the key as the name of Basic", getting(b"/v1/runs", as_password(f"{API_KEY}:x")), WRONG_PASSWORD),
    _row(
        "the key as a password, of one character less", getting(RAW, as_password(f"x:{API_KEY[:-1]}")), WRONG_PASSWORD
    ),
    _row("keys as passwords, guessed", guesses, UNKNOWN_KEY),
    _row(
        "the key as a password, with a wrong one as a bearer",
        getting(RAW, as_password(f"x:{API_KEY}"), b"Authorization: Bearer " + WRONG_KEY),
        UNKNOWN_KEY,
    ),
    _row("an empty password", getting(RAW, as_password("x:")), WRONG_PASSWORD),
    _row("a key of one character less", getting(b"/v1/runs", KEY.strip()[:-1]), UNKNOWN_KEY),
    _row(
        "two keys in two lines of one header",
        getting(b"/v1/runs", KEY.strip(), b"Authorization: Bearer " + WRONG_KEY),
        UNKNOWN_KEY,
    ),
    _row(
        "the wrong key first",
        getting(b"/v1/runs", b"Authorization: Bearer " + WRONG_KEY, KEY.strip()),
        UNKNOWN_KEY,
    ),
    _row("two keys in two headers", getting(b"/v1/runs", KEY.strip(), b"X-Service-Api-Key: " + WRONG_KEY), UNKNOWN_KEY),
    _row(
        "a key that the next line continues",
        getting(b"/v1/runs", b"Authorization: Bearer", b" " + API_KEY.encode()),
        NO_HTTP,
    ),
    _row(
        "a key behind a bare CR", getting(b"/v1/version", b"X: a\rAuthorization: Bearer " + API_KEY.encode()), NO_HTTP
    ),
    _row(
        "two projects",
        getting(b"/v1/resources/Fleet", KEY.strip(), b"X-Service-Project: default", b"X-Service-Project: other"),
        "400 The header X-Service-Project is given more than once.",
    ),
    _row(
        "two hosts",
        getting(b"/v1/resources/Fleet", KEY.strip(), b"Host: elsewhere"),
        "400 The header Host is given more than once.",
    ),
    _row(
        "project ../other",
        getting(b"/v1/resources/Fleet", KEY.strip(), b"X-Service-Project: ../other"),
        "404 There is no such project.",
    ),
)

_PATHS = (
    _row("a path that begins with a public one", getting(b"/livez/../v1/runs"), NO_KEY),
    _row("the same with %2f", getting(b"/livez%2f..%2fv1%2fruns"), NO_KEY),
    _row("a public path in the query", getting(b"/v1/runs?/livez"), NO_KEY),
    _row("a path with two slashes", getting(b"//v1/runs"), NO_KEY),
    _row("a path in capitals", getting(b"/V1/Runs"), NO_KEY),
    _row("another path in a header", getting(b"/v1/runs", b"X-Original-URL: /livez", b"X-Rewrite-URL: /livez"), NO_KEY),
    _row(
        "a request from this machine, by a header",
        getting(b"/v1/runs", b"X-Forwarded-For: 127.0.0.1", b"Forwarded: for=127.0.0.1"),
        NO_KEY,
    ),
    _row("another host", sending(b"GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), NO_KEY),
    _row(
        "a whole URL, as to a proxy",
        getting(b"http://169.254.169.254/latest", KEY.strip()),
        "404 There is no such path; /openapi.json lists those that there are.",
    ),
    _row("a tunnel", sending(b"CONNECT localhost:22 HTTP/1.1\r\nHost: localhost:22\r\n\r\n"), NO_HTTP),
    _row(
        "a page of another site",
        sending(
            b"POST /v1/apply HTTP/1.1\r\nOrigin: http://evil.example\r\n"
            b"Content-Type: text/plain\r\nContent-Length: 2\r\n" + END + b"{}"
        ),
        ANOTHER_SITE,
    ),
    _row(
        "what another site may ask",
        sending(
            b"OPTIONS /v1/apply HTTP/1.1\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n"
            + END
        ),
        NO_KEY,
    ),
    _row("TRACE", sending(b"TRACE /v1/version HTTP/1.1\r\n" + END), "405 This path takes GET, HEAD alone."),
    _row(
        "another method in a header",
        sending(b"POST /v1/version HTTP/1.1\r\nX-HTTP-Method-Override: GET\r\nContent-Length: 0\r\n" + END),
        "405 This path takes GET, HEAD alone.",
    ),
)

_SMUGGLING = (
    _row(
        "Transfer-Encoding with Content-Length", _chunked(b"Transfer-Encoding: chunked", b"Content-Length: 4"), NO_HTTP
    ),
    _row(
        "Content-Length with Transfer-Encoding", _chunked(b"Content-Length: 4", b"Transfer-Encoding: chunked"), NO_HTTP
    ),
    _row("two lengths", applying(b"Content-Length: 0", b"Content-Length: 70", then=SECOND), NO_HTTP),
    _row("a length with a sign", applying(b"Content-Length: +0", then=SECOND), NO_HTTP),
    _row("a length of 400 digits", applying(b"Content-Length: " + b"9" * 400), NO_HTTP),
    _row("a space before the colon", _chunked(b"Transfer-Encoding : chunked"), NO_HTTP),
    _row("lines that end in LF", sending(SECOND.replace(b"\r\n", b"\n")), NO_HTTP),
    _row("HTTP/2 without an upgrade", sending(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), NO_HTTP),
)

_SIZES = (
    _row(
        "35 kB of gzip that are 12 million resources",
        bomb,
        "415 The body is compressed; send it without a Content-Encoding.",
    ),
    _row(
        "a body of 99 GB",
        applying(b"Content-Length: 99999999999", b"Connection: close"),
        "413 The body is over 8388608 bytes; send the resources in several requests.",
    ),
    _row(
        "a request line of 70 kB",
        getting(b"/" + b"x" * 70_000),
        "431 The request line and the headers are larger than 64 KiB; send fewer or shorter ones.",
    ),
    _row(
        "a header of 70 kB",
        getting(b"/v1/version", b"X: " + b"x" * 70_000),
        "431 The request line and the headers are larger than 64 KiB; send fewer or shorter ones.",
    ),
)

_SHA_1 = hmac.new(HOOK_SECRET, b"{}", hashlib.sha1).hexdigest().encode()
_WRONG = hmac.new(b"canary-another-secret", b"{}", hashlib.sha256).hexdigest().encode()
_RIGHT = hmac.new(HOOK_SECRET, b"{}", hashlib.sha256).hexdigest().encode()

_HOOKS = (
    _row("a delivery without a signature", delivering(), NO_HOOK),
    _row("a delivery that another secret signs", delivering(b"X-Hub-Signature-256: sha256=" + _WRONG), NO_HOOK),
    _row("a delivery that SHA-1 signs", delivering(b"X-Hub-Signature: sha1=" + _SHA_1), NO_HOOK),
    _row("a delivery with an empty token", delivering(b"X-Gitlab-Token:"), NO_HOOK),
    _row("a delivery with a key of the API", delivering(KEY.strip()), NO_HOOK),
    _row(
        "a delivery with two signatures in one header",
        delivering(b"X-Hub-Signature-256: sha256=" + _WRONG, b"X-Hub-Signature-256: sha256=" + _WRONG),
        NO_HOOK,
    ),
    _row(
        "a delivery to a repository that there is not",
        delivering(b"X-Hub-Signature-256: sha256=" + _RIGHT, to=b"nowhere"),
        NO_HOOK,
    ),
    _row(
        "a delivery to another repository",
        delivering(b"X-Hub-Signature-256: sha256=" + _RIGHT, to=b"pushed"),
        NO_HOOK,
    ),
    _row("a delivery of 99 GB", delivering(length=99_999_999_999), "413 The body is over 1048576 bytes."),
    _row("a path beneath a hook", delivering(to=b"platform/../../v1/runs"), NO_KEY),
)

ATTACKS = (*_KEYS, *_PATHS, *_SMUGGLING, *_SIZES, *_HOOKS)
