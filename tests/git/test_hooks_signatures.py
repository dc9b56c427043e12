"""A delivery is right when somebody who has the secret made it of these very bytes, and never else."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.git import hooks
from reconciler.git.hooks import SECONDS, SignatureCheck, SignatureVerdict
from tests import forges
from tests.forges import BODY, SECRET, SIGNING_TOKEN, Delivery

NOW = 1_795_240_000
FORGES = forges.every(NOW)
NAMES = st.sampled_from(sorted(FORGES))
SECRETS = st.binary(min_size=16, max_size=80).filter(lambda secret: b"\n" not in secret)


def verdict(delivery: Delivery, *, secret: bytes, now: float = NOW, pieces: int = 1) -> SignatureVerdict:
    """Return the verdict on a delivery whose body arrives in so many pieces."""
    pairs = [(name.lower().encode(), value.encode("latin-1")) for name, value in delivery.headers.items()]
    checking = SignatureCheck(hooks.single_header(pairs), secret=secret)
    size = max(1, -(-len(delivery.body) // pieces))
    for start in range(0, len(delivery.body), size):
        checking.update(delivery.body[start : start + size])
    return checking.verdict(now=now)


@pytest.mark.parametrize("forge", FORGES)
def test_what_a_forge_sends_is_right_with_its_secret_and_wrong_with_any_other(forge: str) -> None:
    secret, make = FORGES[forge]
    assert verdict(make("1"), secret=secret) is SignatureVerdict.RIGHT
    assert verdict(make("1"), secret=secret + b"x") is SignatureVerdict.WRONG
    assert verdict(make("1"), secret=bytes(32)) is SignatureVerdict.WRONG


@given(forge=NAMES.filter(lambda name: name != "GitLab with a secret token"), position=st.integers(min_value=0))
def test_a_body_with_one_other_byte_is_wrong(forge: str, position: int) -> None:
    secret, make = FORGES[forge]
    delivery = make("1")
    at = position % len(delivery.body)
    changed = delivery.body[:at] + bytes([delivery.body[at] ^ 1]) + delivery.body[at + 1 :]
    assert verdict(Delivery(changed, delivery.headers), secret=secret) is SignatureVerdict.WRONG


@given(secret=SECRETS, body=st.binary(max_size=500), pieces=st.integers(min_value=1, max_value=20))
def test_any_secret_signs_any_body_however_it_arrives(secret: bytes, body: bytes, pieces: int) -> None:
    for delivery in (forges.github(secret, body), forges.gitea(secret, body), forges.forgejo(secret, body)):
        assert verdict(delivery, secret=secret, pieces=pieces) is SignatureVerdict.RIGHT


@given(secret=SECRETS, other=SECRETS)
@example(secret=b"x" * 64, other=b"x" * 63)
def test_another_secret_signs_nothing(secret: bytes, other: bytes) -> None:
    expected = SignatureVerdict.RIGHT if secret == other else SignatureVerdict.WRONG
    if secret.rstrip(b"\0") != other.rstrip(b"\0"):  # HMAC fills its key up with zeros
        assert verdict(forges.github(secret), secret=other) is expected


@given(key=st.binary(min_size=24, max_size=64), body=st.binary(max_size=200), identity=st.uuids().map(str))
def test_any_signing_token_signs_the_id_the_time_and_the_body(key: bytes, body: bytes, identity: str) -> None:
    token = b"whsec_" + base64.b64encode(key)
    delivery = forges.gitlab_signed(token, body, identity=identity, at=NOW)
    assert verdict(delivery, secret=token, pieces=3) is SignatureVerdict.RIGHT
    assert verdict(delivery.but(webhook_id=identity + "x"), secret=token) is SignatureVerdict.WRONG
    assert verdict(delivery.but(webhook_timestamp=str(NOW + 1)), secret=token) is SignatureVerdict.WRONG


def test_what_was_signed_with_its_time_counts_in_no_other_form() -> None:
    body, identity, at = b"{}", "1", NOW - 10 * SECONDS
    signed = f"{identity}.{at}.".encode() + body
    for secret in (SIGNING_TOKEN, SECRET):
        key = base64.b64decode(SIGNING_TOKEN.removeprefix(b"whsec_")) if secret is SIGNING_TOKEN else secret
        digest = hmac.new(key, signed, hashlib.sha256)
        as_standard = {
            "webhook-id": identity,
            "webhook-timestamp": str(at),
            "webhook-signature": "v1," + base64.b64encode(digest.digest()).decode(),
        }
        assert verdict(Delivery(body, as_standard), secret=secret) is not SignatureVerdict.RIGHT
        if secret is SIGNING_TOKEN:
            again = Delivery(signed, {"X-Gitea-Signature": digest.hexdigest()})
            assert verdict(again, secret=secret) is SignatureVerdict.WRONG


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, SignatureVerdict.RIGHT),
        (SECONDS, SignatureVerdict.RIGHT),
        (-SECONDS, SignatureVerdict.RIGHT),
        (SECONDS + 1, SignatureVerdict.LATE),
        (-SECONDS - 1, SignatureVerdict.LATE),
        (10**9, SignatureVerdict.LATE),
    ],
)
def test_a_signed_time_must_be_about_now(seconds: int, expected: SignatureVerdict) -> None:
    delivery = forges.gitlab_signed(at=NOW)
    assert verdict(delivery, secret=SIGNING_TOKEN, now=NOW + seconds) is expected


@pytest.mark.parametrize("time", ["", "-5", "1e9", "1795240000.5", "\u00b2", "9" * 5000, "0x10"])
def test_a_signed_time_is_a_number_of_seconds(time: str) -> None:
    signed = f"1.{time}.".encode("latin-1", "replace") + BODY
    key = base64.b64decode(SIGNING_TOKEN.removeprefix(b"whsec_"))
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    shown = time.encode("latin-1", "replace").decode("latin-1")
    delivery = forges.gitlab_signed(at=NOW).but(
        webhook_id="1", webhook_timestamp=shown, webhook_signature=f"v1,{signature}"
    )
    assert verdict(delivery, secret=SIGNING_TOKEN) is SignatureVerdict.LATE


def test_one_right_signature_of_several_suffices() -> None:
    delivery = forges.gitlab_signed(at=NOW)
    right = delivery.headers["webhook-signature"]
    several = delivery.but(webhook_signature=f"v1a,ed25519 v1,old {right}", x_gitlab_token="another-secret-token")
    assert verdict(several, secret=SIGNING_TOKEN) is SignatureVerdict.RIGHT
    far = delivery.but(webhook_signature="v1,old " * hooks.MOST_SIGNATURES + right)
    assert verdict(far, secret=SIGNING_TOKEN) is SignatureVerdict.WRONG


@pytest.mark.parametrize("name", ["x_hub_signature_256", "x_gitea_signature", "x_forgejo_signature"])
def test_a_signature_is_right_in_each_header_alone_and_in_its_form_alone(name: str) -> None:
    digest = hmac.new(SECRET, BODY, hashlib.sha256).hexdigest()
    right, wrong = digest, f"sha256={digest}"
    if name == "x_hub_signature_256":
        right, wrong = wrong, right
    bare = Delivery(BODY, {})
    assert verdict(bare.but(**{name: right}), secret=SECRET) is SignatureVerdict.RIGHT
    for other in (wrong, right.upper(), right[:-1], right + "0", f"{right},{right}"):
        assert verdict(bare.but(**{name: other}), secret=SECRET) is SignatureVerdict.WRONG


def test_sha_1_and_no_signature_are_none() -> None:
    delivery = forges.github().but(x_hub_signature_256=None)
    assert verdict(delivery, secret=SECRET) is SignatureVerdict.NONE
    assert verdict(Delivery(BODY, {}), secret=SECRET) is SignatureVerdict.NONE
    unset = forges.gitea(b"").but(x_hub_signature_256=None, x_gitea_signature="")  # Gitea without a secret
    assert verdict(unset, secret=SECRET) is SignatureVerdict.NONE


def test_a_header_that_is_given_twice_means_nothing() -> None:
    pairs = [(name.lower().encode(), value.encode()) for name, value in forges.github().headers.items()]
    twice = hooks.single_header([*pairs, (b"x-hub-signature-256", b"sha256=0")])
    checking = SignatureCheck(twice, secret=SECRET)
    checking.update(BODY)
    assert checking.verdict(now=NOW) is SignatureVerdict.NONE


@pytest.mark.parametrize("forge", FORGES)
def test_each_forge_says_which_delivery_this_is(forge: str) -> None:
    delivery = FORGES[forge][1]("an-id")
    pairs = [(name.lower().encode(), value.encode()) for name, value in delivery.headers.items()]
    assert hooks.delivery_id(hooks.single_header(pairs)) == b"an-id"
    assert not hooks.is_ping(hooks.single_header(pairs))


def test_an_older_gitlab_does_not_say_it_and_github_tries_a_hook() -> None:
    older = hooks.single_header([(b"x-gitlab-event-uuid", b"1"), (b"x-gitlab-webhook-uuid", b"2")])
    assert hooks.delivery_id(older) == b""
    assert hooks.is_ping({b"x-github-event": b"ping"})


def test_every_comparison_is_made_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def counting(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    counts = set()
    for delivery in (forges.github(), forges.github(b"another secret, also"), Delivery(BODY, {})):
        for secret in (SECRET, SIGNING_TOKEN, bytes(32)):
            compared.clear()
            verdict(delivery, secret=secret)
            counts.add(len(compared))
    assert counts == {5}
