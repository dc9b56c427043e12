"""A sign-in that the browser carries comes back as it was, or not at all; and it leads nowhere but here."""

import base64
import dataclasses
import hmac
import string
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.auth.oidc import flows
from reconciler.auth.oidc.flows import Flow, begin_flow, local_path, open_flow, seal_flow

KEY = b"canary-key-of-the-service-1234567"
NOW = 1_800_000_000.0
RANDOMNESS = bytes(range(flows.RANDOM_BYTES))
COOKIE = set(string.ascii_letters + string.digits + "-_.")

LOCAL = [
    "/",
    "/account",
    "/a/b/",
    "/?a=b",
    "/a?b=%2Fc%2F%2Fd&e=https://x.example",
    "/%C3%A4",
    "/a;b=c",
    "/~a/@b",
    "/a.b/..c",
]
ELSEWHERE = [
    "",
    "account",
    "https://evil.example/",
    "//evil.example",
    "///evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/a\\b",
    "/a//evil.example",
    "/./a",
    "/a/..",
    "/../a",
    "/a/.",
    "/%2e%2e/a",
    "/%2E/a",
    "/.%2e/a",
    "/%2f/evil.example",
    "/%5cevil.example",
    "/%5Cevil.example",
    "/a%252fb",
    "/%c0%afa",
    "/%ff",
    "/a%00",
    "/a%0d%0aSet-Cookie:b",
    "/a?b=%0d%0aLocation:c",
    "/a\r\nLocation: b",
    "/a\tb",
    "/a b",
    "/\u00e4",
    "/a#b",
    "/a%",
    "/a%4",
    "/a%zz",
    " /a",
    "/a\n",
    "/\u2028",
    "/%E2%80%AE",
    "javascript:alert(1)",
    "data:text/html,a",
    "/" + "a" * 1024,
]


def _begun(**changes: object) -> Flow:
    flow = begin_flow(back="/account", invitation="rci_" + "i" * 43, now=NOW, randomness=RANDOMNESS)
    return dataclasses.replace(flow, **changes)  # type: ignore[arg-type]  # of one field at a time


@pytest.mark.parametrize("path", LOCAL)
def test_a_path_of_this_service_is_kept(path: str) -> None:
    assert local_path(path) == path


@pytest.mark.parametrize("path", ELSEWHERE)
def test_what_may_lead_elsewhere_leads_home(path: str) -> None:
    assert local_path(path) == "/"


@given(st.text() | st.text(alphabet="/\\.%2eEfF5cC0:@?#a\t\n ").map("/".__add__))
def test_a_local_path_stays_on_its_host_however_often_it_is_decoded(text: str) -> None:
    path = local_path(text)
    assert path in (text, "/")
    assert local_path(path) == path
    for read in (path, unquote(path.partition("?")[0]), unquote(unquote(path.partition("?")[0]))):
        assert urlsplit(urljoin("https://here.example/sign-in", read)).netloc == "here.example"
        assert not read.startswith(("//", "/\\"))
        assert "\n" not in read


def test_each_begins_with_secrets_of_its_own() -> None:
    flow = _begun()
    assert len({flow.state, flow.nonce, flow.verifier}) == 3
    assert {len(each) for each in (flow.state, flow.nonce, flow.verifier)} == {43}
    with pytest.raises(ValueError, match="96 random bytes"):
        begin_flow(back="/", invitation="", now=NOW, randomness=b"\0" * 95)


@pytest.mark.parametrize("invitation", ["x" * 65, "a\nb", "\u00e4", "a b"])
def test_what_cannot_be_an_invitation_is_left_out(invitation: str) -> None:
    assert begin_flow(back="/", invitation=invitation, now=NOW, randomness=RANDOMNESS).invitation == ""


@given(st.binary(min_size=96, max_size=96), st.text(), st.text(), st.floats(0, 4e9))
def test_what_is_sealed_opens_as_it_was(randomness: bytes, back: str, invitation: str, now: float) -> None:
    flow = begin_flow(back=back, invitation=invitation, now=now, randomness=randomness)
    sealed = seal_flow(flow, key=KEY)
    assert len(sealed) <= 3072
    assert set(sealed) <= COOKIE
    assert open_flow(sealed, key=KEY, now=now) == flow
    assert open_flow(sealed, key=KEY[::-1], now=now) is None


def test_the_longest_fits_a_cookie() -> None:
    flow = begin_flow(back="/" + "a" * 1023, invitation="i" * 64, now=NOW, randomness=RANDOMNESS)
    assert len(flow.back) == 1024
    assert len(seal_flow(flow, key=KEY)) <= 3072


@given(st.data())
def test_changed_text_opens_nothing(data: st.DataObject) -> None:
    sealed = seal_flow(_begun(), key=KEY)
    at = data.draw(st.integers(0, len(sealed)))
    end = data.draw(st.integers(at, len(sealed)))
    changed = sealed[:at] + data.draw(st.text(alphabet=sorted(COOKIE), max_size=5)) + sealed[end:]
    assert open_flow(changed, key=KEY, now=NOW) == (_begun() if changed == sealed else None)


@given(st.text() | st.text(alphabet=sorted(COOKIE)).map("1.".__add__))
def test_any_text_opens_nothing(text: str) -> None:
    assert open_flow(text, key=KEY, now=NOW) is None


@pytest.mark.parametrize(("age", "opens"), [(0, True), (600, True), (601, False), (-60, True), (-61, False)])
def test_opens_for_ten_minutes(age: int, opens: bool) -> None:
    assert (open_flow(seal_flow(_begun(), key=KEY), key=KEY, now=NOW + age) is not None) == opens


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"[1,2,3,4,5,6]", b'["a","b","c","/",1.0,""]', b"\xff", b"[" * 2000],
    ids=["nothing", "an object", "a list", "numbers", "short secrets", "no text", "depth"],
)
def test_what_is_signed_but_no_sign_in_opens_nothing(body: bytes) -> None:
    text = base64.urlsafe_b64encode(body).rstrip(b"=").decode()
    signed = hmac.digest(KEY, b"reconciler sign-in flow 1\0" + text.encode(), "sha256")
    signature = base64.urlsafe_b64encode(signed).rstrip(b"=").decode()
    assert open_flow(f"1.{text}.{signature}", key=KEY, now=NOW) is None
    whole = seal_flow(_begun(), key=KEY).split(".")[1]  # signed so, a whole one opens
    signed = hmac.digest(KEY, b"reconciler sign-in flow 1\0" + whole.encode(), "sha256")
    signature = base64.urlsafe_b64encode(signed).rstrip(b"=").decode()
    assert open_flow(f"1.{whole}.{signature}", key=KEY, now=NOW) == _begun()


def test_a_signature_for_something_else_opens_nothing() -> None:
    _, body, _ = seal_flow(_begun(), key=KEY).split(".")
    other = base64.urlsafe_b64encode(hmac.digest(KEY, body.encode(), "sha256")).rstrip(b"=").decode()
    assert open_flow(f"1.{body}.{other}", key=KEY, now=NOW) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"back": "//evil.example"},
        {"state": ""},
        {"invitation": "x" * 65},
        {"began": float("nan")},
        {"verifier": "\u00e4" * 43},
    ],
)
def test_what_could_not_be_opened_is_not_sealed(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="could not be opened again"):
        seal_flow(_begun(**changes), key=KEY)


def test_a_short_key_seals_nothing() -> None:
    with pytest.raises(ValueError, match="at least 32 bytes"):
        seal_flow(_begun(), key=b"k" * 31)
