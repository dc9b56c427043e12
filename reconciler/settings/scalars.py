"""The types of single settings, with what each allows in words, and the rules of durations, paths and names.

Which setting has which type is in `models`; the rules of addresses and URLs are in `addresses`.
"""

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator, Strict

from reconciler.settings import addresses
from reconciler.settings.addresses import Address, has_control, listen_address
from reconciler.settings.allowing import Allowed, refusal

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
LONGEST = 8784 * 3600.0  # seconds: a leap year; beyond it a timer is a mistake
NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
PROJECT = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
LONGEST_NAME = 63  # characters
ENV_PATTERN = re.compile(r"(?!SERVICE_)(?:[A-Z0-9_*]|<PROJECT>)+", re.IGNORECASE)
LONGEST_PATTERN = 255  # characters


def seconds(text: object, *, longest: float = LONGEST) -> float:
    """A duration such as `250ms`, `10s`, `5m` or `1h` in seconds; more than nothing, at most a year or `longest`."""
    match = re.fullmatch(r"([0-9]{1,12})(ms|s|m|h)", text) if isinstance(text, str) else None
    value = int(match[1]) * SECONDS[match[2]] if match else 0.0
    if not 0.0 < value <= longest:
        raise ValueError
    return value


def network(value: object) -> IPv4Network | IPv6Network:
    """A network in CIDR notation, or one address; no name, no netmask, no zone, no bits beside the prefix."""
    if isinstance(value, IPv4Network | IPv6Network):
        return value
    if not isinstance(value, str) or not re.fullmatch(r"[0-9A-Fa-f:.]+(?:/[0-9]{1,3})?", value):
        raise ValueError
    found = ip_network(value)
    if isinstance(found, IPv6Network) and found.network_address.ipv4_mapped is not None and found.prefixlen >= 96:
        raise refusal("must be written as IPv4, without `::ffff:`, since that is what is connected to")
    return found


def _optional_address(text: object) -> Address | None:
    return None if text in ("", None) else listen_address(text)


def _absolute(value: object) -> Path:
    if not isinstance(value, str | Path) or not Path(value).is_absolute() or has_control(str(value)):
        raise ValueError
    return Path(value)


def _optional_path(value: object) -> Path | None:
    return None if value in ("", None) else _absolute(value)


def _name(text: str) -> str:
    if len(text) > LONGEST_NAME or not NAME.fullmatch(text):
        raise ValueError
    return text


def _project(text: str) -> str:
    if len(text) > LONGEST_NAME or not PROJECT.fullmatch(text):
        raise ValueError
    return text


def _env_pattern(text: str) -> str:
    """Letters, digits, `_`, `*` and the very text `<PROJECT>`; the service's own variables match no pattern."""
    if len(text) > LONGEST_PATTERN or not ENV_PATTERN.fullmatch(text) or "<" in text.replace("<PROJECT>", ""):
        raise ValueError
    return text


def _filled(text: str) -> str:
    if not text or has_control(text):
        raise ValueError
    return text


Text = Annotated[str, Strict(), Allowed("a string")]
Filled = Annotated[str, Strict(), AfterValidator(_filled), Allowed("a string that is not empty")]
_ENV_PATTERN = "letters, digits, `_`, `*` and `<PROJECT>`"
EnvPattern = Annotated[
    str,
    Strict(),
    AfterValidator(_env_pattern),
    Allowed(f"{_ENV_PATTERN}, not beginning with SERVICE_"),
]
EnvPatterns = Annotated[
    tuple[EnvPattern, ...], Allowed(f"a list of texts of {_ENV_PATTERN}, not beginning with SERVICE_")
]
Boolean = Annotated[bool, Strict(), Allowed("true or false")]
Duration = Annotated[float, BeforeValidator(seconds), Allowed("a duration such as 250ms, 10s, 5m or 1h")]
Listen = Annotated[
    Address,
    PlainValidator(listen_address),
    PlainSerializer(str),
    Allowed("host:port such as 127.0.0.1:3001 or [::1]:3001"),
]
OptionalListen = Annotated[
    Address | None,
    PlainValidator(_optional_address),
    PlainSerializer(lambda value: str(value or "")),
    Allowed('host:port such as 127.0.0.1:4318, or "" for none'),
]
Network = Annotated[
    IPv4Network | IPv6Network,
    PlainValidator(network),
    PlainSerializer(str),
    Allowed("a network such as 10.0.0.0/8 or fd00::/8, without bits after the prefix, or one IP address; no name"),
]
AbsolutePath = Annotated[Path, BeforeValidator(_absolute), Allowed("an absolute path")]
OptionalPath = Annotated[Path | None, BeforeValidator(_optional_path), Allowed('an absolute path, or "" for none')]
Name = Annotated[
    str,
    Strict(),
    AfterValidator(_name),
    Allowed("1 to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends"),
]
Project = Annotated[
    str, Strict(), AfterValidator(_project), Allowed("1 to 63 small letters and digits, with single dashes between")
]
WebURL = Annotated[
    str, Strict(), AfterValidator(addresses.web_url), Allowed("an http or https URL without a user or query")
]
OptionalWebURL = Annotated[
    str,
    Strict(),
    AfterValidator(addresses.optional_web_url),
    Allowed('an http or https URL without a user or query, or ""'),
]
OptionalIssuer = Annotated[
    str,
    Strict(),
    AfterValidator(addresses.optional_issuer),
    Allowed('an http or https URL without a user or query, or ""'),
]
StoreURL = Annotated[
    str,
    Strict(),
    AfterValidator(addresses.store_url),
    Allowed("sqlite:/// and an absolute path, such as sqlite:////srv/a.db"),
]
Percent = Annotated[int, Strict(), Field(ge=0, le=100), Allowed("a whole number from 0 to 100")]
Count = Annotated[int, Strict(), Field(ge=0, le=1_000_000), Allowed("a whole number from 0 to 1000000")]
Resources = Annotated[int, Strict(), Field(ge=1, le=1_000_000), Allowed("a whole number from 1 to 1000000")]
Bytes = Annotated[
    int, Strict(), Field(ge=1024, le=1 << 30), Allowed("a whole number of bytes from 1024 to 1073741824 (1 GiB)")
]
Rate = Annotated[int, Strict(), Field(ge=1, le=1_000_000_000), Allowed("a whole number from 1 to 1000000000")]
DiskBytes = Annotated[
    int, Strict(), Field(ge=1024, le=1 << 50), Allowed("a whole number of bytes from 1024 to 1125899906842624 (1 PiB)")
]
