"""Secrets that a stranger repeats are masked: in every encoding, in part, and where they are cut."""

import base64
import html
import json
from urllib.parse import quote

import pytest

from reconciler.delivery.http_sender import MASK_BYTES, SecretMasks
from tests import canaries

TOKEN = 'canary-7f"3a/9+c&d'
HEADER = f"Bearer {TOKEN}"

FORMS = {
    "plain": TOKEN.encode(),
    "the whole header": HEADER.encode(),
    "other letters": TOKEN.upper().encode(),
    "json": json.dumps({"authorization": HEADER}).encode(),
    "html": html.escape(TOKEN).encode(),
    "url": quote(TOKEN, safe="").encode(),
    "hexadecimal": TOKEN.encode().hex().encode(),
    "utf-16": TOKEN.encode("utf-16-le"),
    "base64 of json": base64.b64encode(json.dumps([HEADER]).encode()),
    "base64 in lines": base64.encodebytes(b"x" * 40 + HEADER.encode() + b"y" * 40),
    **{f"base64 at {at}": base64.b64encode(b"x" * at + TOKEN.encode()) for at in range(3)},
    **{f"base64 for urls at {at}": base64.urlsafe_b64encode(b"x" * at + TOKEN.encode()) for at in range(3)},
}


@pytest.mark.parametrize("said", FORMS.values(), ids=FORMS)
def test_no_form_of_a_secret_is_left(said: bytes) -> None:
    assert canaries.leaks(said) or b"CANARY" in said or b"\n" in said
    masked = SecretMasks([HEADER]).mask(b"you sent " + said + b", which is wrong")
    assert MASK_BYTES in masked
    assert canaries.leaks(masked.lower() + masked + masked.replace(b"\n", b"")) == []
    assert (masked.startswith(b"you sent "), masked.endswith(b", which is wrong")) == (True, True)


@pytest.mark.parametrize(
    ("value", "said", "masked"),
    [
        ("Bearer abcdefgh", b"the token abcdefgh is unknown", b"the token (sensitive) is unknown"),
        ("Basic dXNlcjpodW50ZXIyMg==", b"user has no password hunter22", b"user has no password (sensitive)"),
        ("session=abcdefgh; csrf=ijklmnop", b"csrf ijklmnop?", b"csrf (sensitive)?"),
        ("Bearer abcdefgh", b"a Bearer token is needed", b"a Bearer token is needed"),
        ("abcd", b"xabcdy abcdabcd", b"x(sensitive)y (sensitive)"),
        ("7", b"7 of 77 are wrong; 7", b"(sensitive) of 77 are wrong; (sensitive)"),
        ("", b"nothing", b"nothing"),
    ],
)
def test_a_part_is_masked_and_what_is_no_secret_is_left(value: str, said: bytes, masked: bytes) -> None:
    assert SecretMasks([value]).mask(said) == masked


@pytest.mark.parametrize("cut", range(4, 12))
def test_the_beginning_of_a_secret_at_the_end_is_masked(cut: int) -> None:
    assert SecretMasks(["canary-token"]).mask(b"you sent " + b"canary-token"[:cut]) == b"you sent (sensitive)"


def test_secrets_that_overlap_are_one() -> None:
    assert SecretMasks(["abcdef", "defghi"]).mask(b"abcdefghi abc") == b"(sensitive) abc"
    assert SecretMasks([]).mask(b"abc") == b"abc"
    assert "abcdef" not in repr(SecretMasks(["abcdef"]))
