"""Where things are: what the service listens on, and the URLs that settings may hold.

Pure functions from text to a value; ValueError, or a refusal with its own reason, for what is not allowed.
"""

import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from reconciler.settings.allowing import refusal

LOOPBACK_ONLY = ("http", "git")  # neither encrypts nor proves whom it talks to
REMOTE = ("https", "ssh")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str  # a name or an IP address, without brackets
    port: int  # 0: any free port

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def listen_address(text: object) -> Address:
    """`host:port`, with an IPv6 address in brackets."""
    if isinstance(text, Address):
        return text
    match = (
        re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})", text) if isinstance(text, str) else None
    )
    if match is None or int(match[3]) > 65535:
        raise ValueError
    if match[1]:
        ip_address(match[1])  # ValueError for what is none
    return Address(host=match[1] or match[2], port=int(match[3]))


def has_control(text: str) -> bool:
    """Whether the text holds characters that programs or terminals act on."""
    return any(not character.isprintable() for character in text)


def repository_url(text: str) -> str:
    """A place to read commits from; a refusal says why, since the kinds of mistake differ."""
    if not text or text.startswith("-") or has_control(text):
        raise ValueError
    if text.startswith("/"):
        return text
    if "::" in text.partition("/")[0]:
        raise refusal("must not use a remote helper (`name::address`), which runs a program; use https, ssh or a path")
    if "://" not in text:
        raise refusal(_not_a_url(text))
    return _checked_url(text)


def _not_a_url(text: str) -> str:
    head, colon, _ = text.partition(":")
    if colon and "/" not in head:
        return "must be written as a URL, ssh://user@host/path, instead of user@host:path"
    return "must be an absolute path or a URL (https, ssh or file); a relative path depends on where the service starts"


def _checked_url(text: str) -> str:
    parts = urlsplit(text)
    scheme, host = parts.scheme, parts.hostname or ""
    _ = parts.port  # ValueError for one that is no number
    if parts.password is not None or (scheme != "ssh" and parts.username is not None):
        raise refusal("must not hold a user name or password; put them under credentials")
    if scheme != "file" and not text.startswith(f"{scheme}://"):
        raise refusal("must begin with https, ssh or file in small letters, as git reads it")
    if scheme != "file" and (parts.query or parts.fragment or "?" in text or "#" in text):
        raise refusal("must not hold a query or a fragment, which name no repository")
    if scheme == "file":
        # What unquoting brings to light reaches git as a path; what stands after it, git would never see.
        odd = parts.query or parts.fragment or has_control(unquote(parts.path))
        if host not in ("", "localhost") or not parts.path.startswith("/") or odd or not text.startswith("file:"):
            raise refusal("must be file:// and an absolute path, without a host, query or control characters")
    elif scheme in LOOPBACK_ONLY:
        if not is_loopback(host):
            raise refusal(f"must not use {scheme}:// beyond this machine, since nothing protects it; use https or ssh")
    elif scheme not in REMOTE:
        raise refusal("must be a local path or an https, ssh or file URL")
    elif not host or host.startswith("-") or (parts.username or "").startswith("-"):
        raise refusal("must name a host, and neither host nor user may begin with a dash")
    return text


def web_url(text: str) -> str:
    return issuer(text).rstrip("/")


def issuer(text: str) -> str:
    """A URL as it is written: that of a provider is compared byte for byte, with the slash that it may end with."""
    parts = urlsplit(text)
    _ = parts.port
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.query
        or parts.fragment
        or has_control(text)
    ):
        raise ValueError
    if parts.username is not None or parts.password is not None:
        raise ValueError
    return text


def alert_url(text: str) -> str:
    """A URL that alerts are posted to, or nothing. It may hold a query, with which some chats know who sends."""
    if text:
        parts = urlsplit(text)
        _ = parts.port
        is_web = parts.scheme in ("http", "https") and parts.hostname
        if not is_web or parts.fragment or has_control(text) or parts.username is not None:
            raise ValueError
    return text


def optional_web_url(text: str) -> str:
    return web_url(text) if text else ""


def optional_issuer(text: str) -> str:
    return issuer(text) if text else ""


def store_url(text: str) -> str:
    if not re.fullmatch(r"sqlite:////[^?#]+", text) or has_control(text):
        raise ValueError
    return text
