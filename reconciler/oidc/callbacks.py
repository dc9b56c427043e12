"""What the browser brings back from the provider (RFC 6749, 4.1.2; RFC 9207).

Belongs here: whether it belongs to this sign-in, and the code in it. Does not: whether its state came before (`spent`),
what the code opens. Pure.
"""

import hmac
import re
from collections.abc import Mapping
from typing import Final

from reconciler.oidc.discovery import ProviderDocument
from reconciler.oidc.faults import Declined, NotProved, quoted
from reconciler.oidc.flows import Flow

LONGEST_CODE = 2048  # characters
LONGEST_ERROR = 64  # characters
_CODE: Final = re.compile(rf"[ -~]{{1,{LONGEST_CODE}}}", re.ASCII)  # RFC 6749, A.11
_ERROR: Final = re.compile(rf"[ !#-\[\]-~]{{1,{LONGEST_ERROR}}}", re.ASCII)  # RFC 6749, 4.1.2.1
AGAIN = "begin again at the sign-in page"


def is_callback_of(callback: Mapping[str, list[str]], flow: Flow) -> bool:
    """Whether it has the state of this sign-in, once: that is, whether this browser began it."""
    states = callback.get("state", [])
    return len(states) == 1 and hmac.compare_digest(
        states[0].encode("utf-8", "surrogatepass"), flow.state.encode("utf-8")
    )


def callback_code(callback: Mapping[str, list[str]], document: ProviderDocument) -> str:
    """The authorization code. Raises NotProved, and Declined for an error of the provider's."""
    if any(len(values) != 1 for values in callback.values()):  # RFC 6749, 3.1
        raise NotProved(f"The provider's answer has a parameter twice; {AGAIN}.")
    told = {name: values[0] for name, values in callback.items()}
    _check_issuer(told.get("iss", ""), document)
    if told.get("error"):
        raise Declined(_declined(told["error"]), told=_told(told["error"], told.get("error_description", "")))
    found = told.get("code", "")
    if not _CODE.fullmatch(found):
        raise NotProved(f"The provider's answer holds no code; {AGAIN}.")
    return found


def _check_issuer(told: str, document: ProviderDocument) -> None:
    """An answer of another provider is not taken for ours (RFC 9207, 2.4)."""
    if told and told != document.issuer:
        raise NotProved(f"The answer is another provider's, not {document.issuer}'s; {AGAIN}.")
    if not told and document.names_itself:
        raise NotProved(f"The answer does not say which provider it is from, as {document.issuer}'s do; {AGAIN}.")


def _declined(error: str) -> str:
    """As a sentence; what the provider adds (`error_description`) is its own text, and is not shown."""
    known = error if _ERROR.fullmatch(error) else "an error that it does not name"
    return f"The provider did not sign you in ({known}); try again, or ask whoever runs it."


def _told(error: str, description: str) -> str:
    """Both, bounded and on one line."""
    return quoted(error) + (f": {quoted(description)}" if description else "")
