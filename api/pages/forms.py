"""Forms that a browser sends: proved to come from a page of ours, read with limits, each field text.

Belongs here: shape. Does not: what a field means, which its page says.
"""

from collections.abc import Mapping
from urllib.parse import parse_qsl

from api import bodies, errors, judging
from api.auth import hosts
from api.calls import Call

MAX_BYTES = 16 << 10  # of a body: the longest field is a password of 1,024 bytes, and each may be written as three
MOST = 32  # fields
TYPE = b"application/x-www-form-urlencoded"


class Form:
    """The fields of a form, in their order."""

    def __init__(self, fields: Mapping[str, list[str]]) -> None:
        self._fields = fields

    def text(self, name: str) -> str:
        """A field; empty when it is not there. Raises `BadRequest` for two."""
        values = self._fields.get(name, [])
        if len(values) > 1:
            raise errors.BadRequest(f"The field `{name}` is given more than once.")
        return values[0] if values else ""

    def texts(self, name: str) -> list[str]:
        """Every value of a field."""
        return list(self._fields.get(name, ()))


async def read_form(call: Call) -> Form:
    """The form in a request's body.

    Where somebody is signed in, the call is judged again when the body has arrived. Raises `Forbidden` for what no page
    of ours sent, `UnknownType`, `TooLarge`, `BadRequest`, `ClientDisconnect`, and what `judging.again` does.
    """
    headers = call.scope["headers"]
    hosts.check_origin(headers, web_url=call.services.web_url, needs_proof=True)
    if [value.partition(b";")[0].strip().lower() for value in call.header(b"content-type")] != [TYPE]:
        raise errors.UnknownType(f"A form is sent as `{TYPE.decode()}`.")
    pieces: list[bytes] = []
    await bodies.pass_on(call, pieces.append, limit=MAX_BYTES)
    if "principal" in call.state:
        judging.again(call)
    return _form(b"".join(pieces))


def _form(body: bytes) -> Form:
    fields: dict[str, list[str]] = {}
    try:
        for name, value in parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST, errors="strict"
        ):
            fields.setdefault(name, []).append(value)
    except ValueError:
        raise errors.BadRequest(f"The form is not at most {MOST} fields in percent-encoded UTF-8.") from None
    return Form(fields)
