"""What a remote said in the headers of its HTTP answers that git keeps to itself: when to ask again, and where else.

Belongs here: reading git's trace of the transfer (GIT_TRACE_CURL), bounded, and what the headers mean. Pure; the time
is an argument. Does not: having git write the trace.
"""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin, urlsplit

from reconciler.model.text import visible

MOST_SECONDS = 3600.0  # longer than that nobody is left alone, whatever a remote asks
LINE_BYTES = 8 * 1024  # of the trace; longer lines are passed over
SUCCESS = 2  # the first digit of such a status
VALUE_CHARACTERS = 100  # of a Retry-After
ADDRESS_CHARACTERS = 200  # of the one that people read

# `12:00:00.000000 http.c:684   <= Recv header: Retry-After: 120`, the name in small letters under HTTP/2.
# From the beginning of the line on: what a remote says may stand in any other.
_HEADER = re.compile(rb"[0-9:.]{1,20} +[a-z.]{1,20}:[0-9]{1,6} +(?:(<=) Recv|=> Send) header: ?([^\r\n]*)")
_STATUS = re.compile(r"HTTP/[0-9.]+ ([0-9]{3})")
_SECONDS = re.compile(r"[0-9]+")
_ASKING_TO_WAIT = frozenset({429, 503})
_LEADING_ELSEWHERE = frozenset({301, 302, 303, 307, 308})
_SMART = "application/x-git-upload-pack-advertisement"
_ADVERTISEMENT = "/info/refs"  # what git asks for beneath a repository
_GET = "GET "
_ASKING_FOR_REFS = re.compile(r"GET \S*/info/refs\?(?:\S*&)?service=git-upload-pack HTTP/[0-9.]+")
_BLANK = " \t"  # what curl and git pass over


class HttpAnswers:
    """What the answers of one run said, fed with the trace as it comes; the last answer of a kind counts."""

    def __init__(self) -> None:
        self._rest = b""
        self._status = 0
        self._retry_after = ""
        self._location = ""
        self._asks_for_refs = False
        self._types: set[str] = set()  # of the answer that is coming
        self._speaks_git = False
        self._strayed = False

    @property
    def is_foreign(self) -> bool:
        """Whether the remote does not speak Git's smart protocol: it has strayed from it, or never came to it."""
        return self._strayed or (self._status != 0 and not self._speaks_git)

    @property
    def has_strayed(self) -> bool:
        """Whether git was told what refs there are in another way than by the smart protocol, or goes on without it:
        by the older one it would get objects that nobody checks or counts.
        """
        return self._strayed

    def feed(self, trace: bytes) -> None:
        """Take the next piece of the trace."""
        *lines, self._rest = (self._rest + trace).split(b"\n")
        for line in lines:
            if (found := _HEADER.match(line[:LINE_BYTES])) is not None:
                header = found[2].decode("utf-8", "replace")
                if found[1] is None:
                    self._sent(header)
                else:
                    self._header(header)
        if len(self._rest) > LINE_BYTES:
            self._rest = self._rest[:LINE_BYTES]

    def _sent(self, header: str) -> None:
        """A line of a request. The first one says what is asked."""
        is_get = header.startswith(_GET)
        if is_get or header.endswith((" HTTP/1.1", " HTTP/1.0")):
            self._asks_for_refs = _ASKING_FOR_REFS.fullmatch(header) is not None
            self._strayed |= is_get and not self._asks_for_refs

    def _header(self, header: str) -> None:
        if (status := _STATUS.match(header)) is not None:
            self._status = int(status[1])
            self._types = set()
            return
        if not header:
            self._judge()
            return
        name, _, value = header.partition(":")
        if name.lower() == "retry-after" and self._status in _ASKING_TO_WAIT:
            self._retry_after = value.strip()
        elif name.lower() == "location" and self._status in _LEADING_ELSEWHERE:
            self._location = value.strip()
        elif name.lower() == "content-type":
            self._types.add(value.partition(";")[0].strip(_BLANK).lower())

    def _judge(self) -> None:
        """The headers of an answer are over: whether git takes it for one of the smart protocol."""
        if self._asks_for_refs and self._status // 100 == SUCCESS:
            is_smart = self._types == {_SMART}
            self._speaks_git |= is_smart
            self._strayed |= not is_smart

    def retry_after(self, now: datetime) -> float | None:
        """The seconds that a 429 or 503 asks to wait, at most an hour; None when none did (RFC 9110, 10.2.3)."""
        said = self._retry_after[:VALUE_CHARACTERS]
        if _SECONDS.fullmatch(said):
            return min(float(said), MOST_SECONDS)
        try:
            until = parsedate_to_datetime(said)
            until = until if until.tzinfo else until.replace(tzinfo=UTC)
            return min(max((until - now).total_seconds(), 0.0), MOST_SECONDS)
        except (ValueError, TypeError, IndexError, OverflowError):  # whatever the parser meets in what is no date
            return None

    def redirect(self, url: str) -> str | None:
        """Where a redirect leads, for people: without user name and query, on one line; None when there was none."""
        if not self._location:
            return None
        try:
            there = urlsplit(urljoin(url + _ADVERTISEMENT, self._location))
            host, port = there.hostname or "", "" if there.port is None else f":{there.port}"
        except ValueError:
            return "an address that is none"
        place = f"{there.scheme}://{f'[{host}]' if ':' in host else host}{port}{there.path}"
        return visible(place.removesuffix(_ADVERTISEMENT)[:ADDRESS_CHARACTERS])
