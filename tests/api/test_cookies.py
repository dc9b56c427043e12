"""Reading and writing cookies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import auth
from api.auth import Cookies

NAME = "reconciler"


def read(*values: str, name: str = NAME) -> str:
    """Return what is read out of these headers."""
    return auth.read_cookie([(b"cookie", value.encode("latin-1")) for value in values], name)


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        (["reconciler=abc"], "abc"),
        (["a=b; reconciler=abc; c=d"], "abc"),
        (["a=b;reconciler=abc;c"], "abc"),
        (["  reconciler = abc "], "abc"),
        (["a=b", "reconciler=abc"], "abc"),
        (["reconciler=a=b"], "a=b"),
        (["reconciler="], ""),
        (["reconciler"], ""),
        ([], ""),
        (["Reconciler=abc"], ""),
        (["xreconciler=abc"], ""),
        (["a=reconciler=abc"], ""),
        (["reconciler=abc; reconciler=abc"], ""),
        (["reconciler=abc", "reconciler=def"], ""),
        (["reconciler=abc; reconciler="], ""),
        (["reconciler=\xff"], ""),
        ([f"reconciler={'a' * auth.LONGEST}"], "a" * auth.LONGEST),
        ([f"reconciler={'a' * (auth.LONGEST + 1)}"], ""),
        (["; ".join([*["a=b"] * (auth.MOST - 1), "reconciler=abc"])], "abc"),
        (["; ".join([*["a=b"] * auth.MOST, "reconciler=abc"])], ""),
        (["; ".join(["reconciler=abc", *["a=b"] * auth.MOST])], ""),
    ],
)
def test_one_cookie_of_the_name_counts_and_doubt_is_none(headers: list[str], found: str) -> None:
    assert read(*headers) == found


@given(st.lists(st.text(st.characters(max_codepoint=255), max_size=40), max_size=8))
def test_whatever_stands_there_can_be_read(headers: list[str]) -> None:
    assert isinstance(read(*headers), str)


@given(st.from_regex(r"[A-Za-z0-9._-]{1,60}", fullmatch=True), st.booleans())
def test_what_a_browser_keeps_is_read_again(value: str, is_secure: bool) -> None:
    ours = Cookies(is_secure=is_secure)
    for name in (ours.session, ours.flow):
        kept = ours.given(name, value)[1].decode().partition(";")[0]
        assert read(f"other=1; {kept}", name=name) == value


def test_over_https_a_browser_takes_them_from_this_host_alone() -> None:
    ours = auth.Cookies(is_secure=True)
    assert (ours.session, ours.flow) == ("__Host-reconciler", "__Host-reconciler-flow")
    value = b"__Host-reconciler=v; Path=/; Secure; HttpOnly; SameSite=Lax"
    assert ours.given(ours.session, "v") == (b"set-cookie", value)
    plain = auth.Cookies(is_secure=False)
    assert plain.taken(plain.flow) == (b"set-cookie", b"reconciler-flow=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax")
