"""A token is for one request to one process, for a short time, and once."""

import base64
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from reconciler.model.principals import LOCAL, SERVICE_KEY, Principal, Role, Scope
from reconciler.replicas import tokens
from reconciler.replicas.tokens import BadToken, PeerRequest, PeerTokens
from tests.auth import directories

FLOW_KEY = bytes(range(32))
NOW = 1_000_000.0
ADA = Principal(name="user:ada", user="id-ada")


@dataclass
class Moment:
    """A clock that a test moves."""

    seconds: float = NOW

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Replica:
    """The tokens of one process."""

    process: str
    flow_key: bytes = FLOW_KEY
    clock: Moment = field(default_factory=Moment)

    def __post_init__(self) -> None:
        self.tokens = PeerTokens(tokens.derived_key(self.flow_key), process=self.process, clock=self.clock)

    def sign(self, **changed: Any) -> str:
        """A token for `POST /v1/things?x=1` to the process `b`."""
        asked: dict[str, Any] = {
            "to": "b",
            "principal": ADA,
            "body": b"{}",
            "headers": [(b"if-match", b'"3"')],
            "sender": "one",
            "request": "01REQUEST",
            "address": "192.0.2.1",
        }
        return self.tokens.sign("POST", "/v1/things?x=1", **(asked | changed))

    def check(self, token: str, *, method: str = "POST", path: str = "/v1/things?x=1") -> PeerRequest:
        """Return its content."""
        return self.tokens.check(token, method=method, path=path)


def test_a_token_says_all_that_the_receiver_acts_on() -> None:
    found = Replica("b").check(Replica("a").sign())
    assert (found.method, found.path, found.headers) == ("POST", "/v1/things?x=1", (("if-match", '"3"'),))
    assert (found.principal.name, found.principal.user) == ("user:ada", "id-ada")
    assert (found.body, found.sender, found.request, found.address) == (
        tokens.body_digest(b"{}"),
        "one",
        "01REQUEST",
        "192.0.2.1",
    )


def test_the_key_of_tokens_is_not_that_of_sign_ins() -> None:
    assert tokens.derived_key(FLOW_KEY) != FLOW_KEY
    with pytest.raises(BadToken):
        PeerTokens(FLOW_KEY, process="b", clock=Moment()).check(
            Replica("a").sign(), method="POST", path="/v1/things?x=1"
        )


@pytest.mark.parametrize("off", [-10.0, 0.0, 10.0])
def test_clocks_may_differ_by_ten_seconds(off: float) -> None:
    assert Replica("b", clock=Moment(NOW + off)).check(Replica("a").sign()).sender == "one"


@pytest.mark.parametrize("off", [-tokens.SECONDS - 1, tokens.SECONDS + 1])
def test_an_expired_token_and_one_of_the_future_are_refused(off: float) -> None:
    with pytest.raises(BadToken, match="set the replicas' clocks right"):
        Replica("b", clock=Moment(NOW + off)).check(Replica("a").sign())


@pytest.mark.parametrize("later", [0.0, 10.0, tokens.SECONDS - 1])
@pytest.mark.parametrize("off", [-10.0, 0.0, 10.0])
def test_a_token_is_valid_once_however_the_clocks_differ(off: float, later: float) -> None:
    sender, receiver = Replica("a", clock=Moment(NOW + off)), Replica("b")
    token = sender.sign()
    receiver.check(token)
    receiver.clock.seconds += later
    for number in range(100):  # others are checked meanwhile, which forgets what is old
        sender.clock.seconds = NOW + off + later + number / 1000
        receiver.check(sender.sign())
    with pytest.raises(BadToken):
        receiver.check(token)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/v1/things?x=1"),
        ("post", "/v1/things?x=1"),
        ("POST", "/v1/things?x=2"),
        ("POST", "/v1/things"),
        ("POST", "/v1/others?x=1"),
        ("POST", "/v1/things?x=1&x=2"),
        ("POST", "/v1/%74hings?x=1"),
    ],
)
def test_a_token_is_for_one_method_and_path(method: str, path: str) -> None:
    with pytest.raises(BadToken, match="for another request"):
        Replica("b").check(Replica("a").sign(), method=method, path=path)


@pytest.mark.parametrize("process", ["c", "b2", ""])
def test_a_token_is_for_one_process(process: str) -> None:
    with pytest.raises(BadToken, match="for another replica"):
        Replica(process).check(Replica("a").sign())


def altered(token: str, **changed: Any) -> str:
    """The token with other content under its old signature."""
    text, _, mac = token.partition(".")
    told = msgspec.json.decode(base64.urlsafe_b64decode(text))
    return base64.urlsafe_b64encode(msgspec.json.encode(told | changed)).decode() + "." + mac


@pytest.mark.parametrize(
    "forged",
    [
        "",
        ".",
        "x",
        "x.y",
        "é.é",
        "a" * 20_000,
        Replica("a", flow_key=bytes(32)).sign(),
        Replica("a").sign().partition(".")[0],
        Replica("a").sign().partition(".")[0] + ".",
        Replica("a").sign().upper(),
        " " + Replica("a").sign(),
        Replica("a").sign() + "0",
        altered(Replica("a").sign(), principal={"name": "key:SERVICE_API_KEY", "user": None, "scopes": []}),
        altered(Replica("a").sign(), body=tokens.body_digest(b"")),
        altered(Replica("a").sign(), nonce="other"),
        altered(Replica("a").sign(), at=NOW + 1),
        altered(Replica("a").sign(), headers=[]),
    ],
)
def test_what_is_not_signed_with_the_key_is_refused(forged: str) -> None:
    with pytest.raises(BadToken, match="not signed by a replica"):
        Replica("b").check(forged)


def test_a_token_of_another_version_is_refused_in_words() -> None:
    key = tokens.derived_key(FLOW_KEY)
    signing = PeerTokens(key, process="a", clock=Moment())
    told = signing.sign(
        "GET",
        "/v1/things",
        to="b",
        principal=ADA,
        body=b"",
        headers=[],
        sender="one",
        request="",
        address=None,
    )
    assert Replica("b").tokens.check(told, method="GET", path="/v1/things").address is None


def test_the_receiver_reads_roles_in_its_own_directory() -> None:
    known = directories.directory(directories.key(directories.text(1), role=Role.ADMIN))
    ada = tokens.known(tokens.identified(ADA), known, now=directories.AT)
    assert ada is not None
    assert ada.roles == {"payments": Role.ADMIN}
    key = known.holder(directories.text(1), now=directories.AT)
    assert key is not None
    assert tokens.known(tokens.identified(key), known, now=directories.AT) == key


def test_a_principal_that_the_receiver_does_not_know_is_nobody() -> None:
    known = directories.directory()
    for principal in (
        Principal(name="user:ada", user="id-other"),
        Principal(name="user:ada"),
        Principal(name="user:root", user="id-ada"),
        Principal(name="key:K1"),
        Principal(name="key:SERVICE_API_KEY"),
        Principal(name="", user=""),
    ):
        assert tokens.known(tokens.identified(principal), known, now=directories.AT) is None


def test_an_expired_key_is_nobody_and_scopes_only_shrink() -> None:
    kept = directories.key(directories.text(1), expires_at=directories.LATER)
    known = directories.directory(kept)
    one = Principal(name="key:K1", scopes=frozenset(Scope))
    found = tokens.known(tokens.identified(one), known, now=directories.AT)
    assert found is not None
    assert found.scopes == {Scope.RESOURCES}
    narrow = Principal(name="key:K1", scopes=frozenset({Scope.RAW}))
    found = tokens.known(tokens.identified(narrow), known, now=directories.AT)
    assert found is not None
    assert found.scopes == frozenset()
    assert tokens.known(tokens.identified(one), known, now=directories.LATER) is None


def test_principals_in_no_directory_are_told_apart() -> None:
    named_so = Principal(name=LOCAL.name, user="id-local")  # a person may have any name
    every = (SERVICE_KEY, LOCAL, ADA, named_so)
    assert [tokens.is_unlisted(tokens.identified(one)) for one in every] == [True, True, False, False]
