"""Types of single settings (names, durations, addresses, URLs) with the sentences that refuse a value.

No message repeats the refused value: it may be a secret. The base of the settings classes is here too. It maps a Python
name to the key in the file.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias
from urllib.parse import unquote, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    PlainValidator,
    Strict,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from reconciler.model.values import Pointer

OURS = "settings"  # the error type of a message that is already a sentence of ours


@dataclass(frozen=True, slots=True)
class Allowed:
    """The allowed values of a setting in words. It is the message of every mistake without a better one."""

    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the annotated type's schema, with the message replaced."""
        return core_schema.no_info_wrap_validator_function(self._judge, handler(source))

    def _judge(self, value: object, handler: ValidatorFunctionWrapHandler) -> object:
        try:
            return handler(value)
        except ValidationError as problem:
            if problem.errors(include_input=False)[0]["type"] == OURS:
                raise
            raise refusal(f"must be {self.words}") from None


def refusal(sentence: str) -> PydanticCustomError:
    """Return the error for a mistake with its own message."""
    # A context-free template: braces are doubled, since pydantic would format them.
    return PydanticCustomError(OURS, sentence.replace("{", "{{").replace("}", "}}"))


LOOPBACK_ONLY = ("http", "git")  # without encryption and authentication
REMOTE = ("https", "ssh")


@dataclass(frozen=True, slots=True)
class Address:
    """An address to listen on."""

    host: str  # a name or an IP address, without brackets
    port: int  # 0: any free port

    @property
    def loopback(self) -> bool:
        """True if only this machine can reach it."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Return True if a host name or address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def listen_address(text: object) -> Address:
    """Parse `host:port`, with an IPv6 address in brackets."""
    if isinstance(text, Address):
        return text
    match = (
        re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})", text) if isinstance(text, str) else None
    )
    if match is None or int(match[3]) > 65535:
        raise ValueError
    if match[1]:
        ip_address(match[1])  # raises ValueError for any other text
    return Address(host=match[1] or match[2], port=int(match[3]))


def has_control(text: str) -> bool:
    """Return True if the text contains control characters."""
    return not text.isprintable()


def repository_url(text: str) -> str:
    """Check the URL of a repository. A refusal says why, because there are several kinds of mistakes."""
    if not text or text.startswith("-") or has_control(text):
        raise ValueError
    if text.startswith("/"):
        return text
    if "::" in text.partition("/")[0]:
        raise refusal("must not use a remote helper (`name::address`), which runs a program; use https, ssh or a path")
    if "://" not in text:
        head, colon, _ = text.partition(":")
        if colon and "/" not in head:
            raise refusal("must be written as a URL, ssh://user@host/path, instead of user@host:path")
        raise refusal(
            "must be an absolute path or a URL (https, ssh or file); a relative path depends on where the service "
            "starts"
        )
    return _checked_url(text)


def _checked_url(text: str) -> str:
    parts = urlsplit(text)
    scheme, host = parts.scheme, parts.hostname or ""
    _ = parts.port  # raises ValueError if the port is no number
    if parts.password is not None or (scheme != "ssh" and parts.username is not None):
        raise refusal("must not hold a user name or password; put them under credentials")
    if scheme != "file" and not text.startswith(f"{scheme}://"):
        raise refusal("must begin with https, ssh or file in small letters, as git reads it")
    if scheme != "file" and (parts.query or parts.fragment or "?" in text or "#" in text):
        raise refusal("must not hold a query or a fragment, which name no repository")
    if scheme == "file":
        # git gets the decoded text as a path, and would stop at a NUL.
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


def issuer(text: str, *, may_have_query: bool = False) -> str:
    """Check the URL of a provider. It stays as it is written, because it is compared byte for byte, with its last
    slash.
    """
    parts = urlsplit(text)
    _ = parts.port
    is_web = parts.scheme in ("http", "https") and parts.hostname and parts.username is None
    if not is_web or parts.fragment or (parts.query and not may_have_query) or has_control(text):
        raise ValueError
    return text


def alert_url(text: str) -> str:
    """Check a URL for alerts. It may have a query, by which some chats identify the sender."""
    return issuer(text, may_have_query=True)


def or_nothing(check: Callable[[str], str], *, nothing: str | None = "") -> AfterValidator:
    """Return the check of a text that may be empty."""
    return AfterValidator(lambda text: check(text) if text else nothing)


SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
LONGEST = 8784 * 3600.0  # seconds: a leap year; beyond it a timer is a mistake
NAME = "^[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?$"
PROJECT = "^[a-z0-9]+(?:-[a-z0-9]+)*$"
LONGEST_NAME = 63  # characters
ENV_PATTERN = re.compile(r"(?!SERVICE_)(?:[A-Z0-9_*]|<PROJECT>)+", re.IGNORECASE)
LONGEST_PATTERN = 255  # characters


def seconds(text: object, *, longest: float = LONGEST) -> float:
    """Parse a duration such as `250ms`, `10s`, `5m` or `1h` into seconds: more than 0, at most a year or `longest`."""
    match = re.fullmatch(r"([0-9]{1,12})(ms|s|m|h)", text) if isinstance(text, str) else None
    value = int(match[1]) * SECONDS[match[2]] if match else 0.0
    if not 0.0 < value <= longest:
        raise ValueError
    return value


def network(value: object) -> IPv4Network | IPv6Network:
    """Parse a network in CIDR notation, or one address: no name, netmask or zone, and no bits after the prefix."""
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


def _env_pattern(text: str) -> str:
    """Check a pattern of variables: letters, digits, `_`, `*` and the text `<PROJECT>`. No pattern matches the
    service's own variables.
    """
    if len(text) > LONGEST_PATTERN or not ENV_PATTERN.fullmatch(text) or "<" in text.replace("<PROJECT>", ""):
        raise ValueError
    return text


def _filled(text: str) -> str:
    if not text or has_control(text):
        raise ValueError
    return text


Text = Annotated[str, Allowed("a string")]
Filled = Annotated[str, AfterValidator(_filled), Allowed("a string that is not empty")]
EnvPattern = Annotated[
    str,
    AfterValidator(_env_pattern),
    Allowed("letters, digits, `_`, `*` and `<PROJECT>`, not beginning with SERVICE_"),
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
    Allowed("a network such as 10.0.0.0/8 or fd00::/8, without bits after the prefix, or one IP address; no name"),
]
AbsolutePath = Annotated[Path, BeforeValidator(_absolute), Allowed("an absolute path")]
OptionalPath = Annotated[Path | None, BeforeValidator(_optional_path), Allowed('an absolute path, or "" for none')]
Name = Annotated[
    str,
    Field(max_length=LONGEST_NAME, pattern=NAME),
    Allowed("1 to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends"),
]
Project = Annotated[
    str,
    Field(max_length=LONGEST_NAME, pattern=PROJECT),
    Allowed("1 to 63 small letters and digits, with single dashes between"),
]
WebURL = Annotated[str, AfterValidator(web_url), Allowed("an http or https URL without a user or query")]
OptionalWebURL = Annotated[str, or_nothing(web_url), Allowed('an http or https URL without a user or query, or ""')]
OptionalIssuer = Annotated[str, or_nothing(issuer), Allowed('an http or https URL without a user or query, or ""')]
SQLITE, POSTGRESQL = "sqlite:///", "postgresql://"
# Only libpq knows the whole syntax after the scheme. An `@`, `/` or `?` in a password must be escaped: libpq would read
# the following text as the host or the database, and show it in its errors.
_PART = r"@#\s\p{C}"
POSTGRESQL_URI = rf"{POSTGRESQL}[^/?{_PART}]*(?:@[^/?{_PART}]*)?(?:[/?][^{_PART}]*)?"
StoreURL = Annotated[
    str,
    Field(pattern=rf"^(?:{SQLITE}/[^?#\p{{C}}\p{{Zl}}\p{{Zp}}]+|{POSTGRESQL_URI})$"),
    Allowed("sqlite:/// and an absolute path, such as sqlite:////srv/a.db, or postgresql://user@host/database"),
]
WorkerURL = Annotated[
    str, Field(pattern=rf"^(?:{POSTGRESQL_URI})?$"), Allowed('postgresql://user@host/database, or ""')
]
Percent = Annotated[int, Strict(), Field(ge=0, le=100), Allowed("a whole number from 0 to 100")]
Count = Annotated[int, Strict(), Field(ge=0, le=1_000_000), Allowed("a whole number from 0 to 1000000")]
PositiveCount = Annotated[int, Strict(), Field(ge=1, le=1_000_000), Allowed("a whole number from 1 to 1000000")]
Bytes = Annotated[
    int, Strict(), Field(ge=1024, le=1 << 30), Allowed("a whole number of bytes from 1024 to 1073741824 (1 GiB)")
]
Rate = Annotated[int, Strict(), Field(ge=1, le=1_000_000_000), Allowed("a whole number from 1 to 1000000000")]
DiskBytes = Annotated[
    int, Strict(), Field(ge=1024, le=1 << 50), Allowed("a whole number of bytes from 1024 to 1125899906842624 (1 PiB)")
]


# Keys whose capital letters follow the interface, not the rule.
SPELLINGS = {
    "web_url": "webURL",
    "oauth2_client_id": "oauth2ClientID",
    "oauth2_client_secret": "oauth2ClientSecret",
}


def topic_key(name: str) -> str:
    """Return the key of an attribute in the file: `max_body_bytes` is `maxBodyBytes`."""
    first, *rest = name.split("_")
    return SPELLINGS.get(name) or first + "".join(word.capitalize() for word in rest)


def setting(default: Any, meaning: str) -> Any:
    """Declare an optional key of a section."""
    return Field(default=default, description=meaning)


def credential(default: str, meaning: str) -> Any:
    """Declare a key of a section that may contain a password, which is in no `repr`."""
    return Field(default=default, description=meaning, repr=False)


Mistake: TypeAlias = tuple[Pointer, str]
"""A broken rule: the pointer of a key, and the sentence."""

ALL_SOURCES = "all sources"  # the context of a validation that also checks rules between keys


class Topic(BaseModel):
    """One section of the settings: frozen, and without unknown keys."""

    model_config = ConfigDict(alias_generator=topic_key, extra="forbid", frozen=True, hide_input_in_errors=True)

    def contradictions(self) -> Iterator[Mistake]:
        """Yield the contradictions between keys that are valid by themselves; pointers begin in this section."""
        return iter(())

    def pair(self, one: str, other: str) -> Iterator[Mistake]:
        """Yield the mistake if one of two keys is given without the other."""
        for name, needed in ((one, other), (other, one)):
            if getattr(self, name) and not getattr(self, needed):
                yield (topic_key(name),), f"needs {topic_key(needed)} too"

    @model_validator(mode="after")
    def _judge(self, info: ValidationInfo) -> Self:
        # The file by itself may lack keys that an option or a variable sets.
        found = self.contradictions() if info.context == ALL_SOURCES else ()
        details = [InitErrorDetails(type=refusal(sentence), loc=pointer, input=None) for pointer, sentence in found]
        if details:
            raise ValidationError.from_exception_data(type(self).__name__, details)
        return self
