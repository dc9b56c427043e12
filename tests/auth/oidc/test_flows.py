"""A sign-in that the browser carries comes back as it was, or not at all; and it leads nowhere but here."""

import string
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.auth.oidc.flows import Flow, begin_flow, local_path, open_flow, seal_flow

KEY = b"canary-key-of-the-service-1234567"
NOW = 1_800_000_000.0
COOKIE = set(string.ascii_letters + string.digits + "-_.=")

LOCAL = [
    "/a?b=%2Fc+d",
    "/",
    "/account",
    "/a/b/",
    "/?a=b",
    "/a?b=c&d=e",
    "/~a/b-c_d",
    "/a.b/c.",
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
    "/a.b/..c",
    "/%C3%A4",
    "/a;b=c",
    "/@b",
    "/a:b",
    "/a%2Fc",
    "/a?b=%zz",
    "/a?b=https://x.example",
    "/" + "a" * 1024,
]


def _begun() -> Flow:
    return begin_flow(back="/account", invitation="rci_" + "i" * 43, now=NOW)


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
    one, other = _begun(), _begun()
    assert len({one.state, one.nonce, one.verifier, other.state, other.nonce, other.verifier}) == 6
    assert {len(each) for each in (one.state, one.nonce, one.verifier)} == {43}


@given(st.text(), st.text(max_size=64), st.floats(0, 4e9))
def test_what_is_sealed_opens_as_it_was(back: str, invitation: str, now: float) -> None:
    flow = begin_flow(back=back, invitation=invitation.encode("utf-8", "replace").decode(), now=now)
    sealed = seal_flow(flow, key=KEY)
    assert set(sealed) <= COOKIE
    assert open_flow(sealed, key=KEY, now=now) == flow
    assert open_flow(sealed, key=KEY[::-1], now=now) is None


def test_the_longest_fits_a_cookie() -> None:
    flow = begin_flow(back="/" + "a" * 1023, invitation="i" * 64, now=NOW)
    assert len(flow.back) == 1024
    assert len(seal_flow(flow, key=KEY)) <= 3072


@given(st.data())
def test_changed_text_opens_nothing(data: st.DataObject) -> None:
    flow = _begun()
    sealed = seal_flow(flow, key=KEY)
    at = data.draw(st.integers(0, len(sealed)))
    end = data.draw(st.integers(at, len(sealed)))
    changed = sealed[:at] + data.draw(st.text(alphabet=sorted(COOKIE), max_size=5)) + sealed[end:]
    assert open_flow(changed, key=KEY, now=NOW) == (flow if changed == sealed else None)


@given(st.text() | st.text(alphabet=sorted(COOKIE)))
def test_any_text_opens_nothing(text: str) -> None:
    assert open_flow(text, key=KEY, now=NOW) is None


@pytest.mark.parametrize(("age", "opens"), [(0, True), (600, True), (601, False), (-60, True), (-61, False)])
def test_opens_for_ten_minutes(age: int, opens: bool) -> None:
    assert (open_flow(seal_flow(_begun(), key=KEY), key=KEY, now=NOW + age) is not None) == opens
