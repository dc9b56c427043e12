"""The pure parts: intervals and the longest time, the breaker, what answers mean, requests, what is left of a batch."""

import random
from contextlib import suppress
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.delivery import batches, http_sender
from reconciler.delivery import retry as delivery_retry
from reconciler.delivery.breaker import OPENS_AFTER, SendGate
from reconciler.delivery.http_client import Denied, FailureCause, HttpAnswer, HttpTarget, Unanswered
from reconciler.delivery.otlp import skeletons
from reconciler.delivery.queue.contract import Batch
from reconciler.delivery.retry import LONGEST_RETRY_AFTER, AnswerVerdict, RetryDecision
from reconciler.model.routes import Endpoint, Retry
from tests.delivery.exporter.worlds import BEGAN, Time, bodies, destination, otlp

ENDPOINT = Endpoint(host="hook.example", port=443)
DOWN = AnswerVerdict(False, outage=True, status=503, cause="It answered 503.")
UP = AnswerVerdict(True, outage=False, status=200)
ALWAYS_FIVE = Retry(initial_interval=100.0, max_interval=5.0)
retries = st.builds(
    Retry,
    enabled=st.just(True),
    initial_interval=st.floats(0.001, 1000),
    max_interval=st.floats(0.001, 1000),
    max_elapsed=st.sampled_from([0.0, 1.0, 300.0, 86_400.0]),
)
chances = st.integers(0, 1 << 32).map(random.Random)


# Retrying


@given(retries, st.integers(1, 10_000), chances)
def test_an_interval_grows_by_half_is_randomised_by_half_and_then_cut(
    retry: Retry, attempts: int, chance: random.Random
) -> None:
    wait = delivery_retry.retry_interval(retry, attempts=attempts, chance=chance)

    assert wait <= retry.max_interval
    grown = retry.initial_interval * 1.5 ** min(attempts - 1, 100)
    assert min(grown * 0.5, retry.max_interval) <= wait <= grown * 1.5


@given(retries, st.integers(1, 1000), st.floats(0, 90_000), st.floats(0, 1e9), chances)
def test_time_spent_never_passes_the_longest_and_what_was_asked_for_is_waited(
    retry: Retry, attempts: int, spent: float, asked: float, chance: random.Random
) -> None:
    decision = delivery_retry.decide_retry(retry, attempts=attempts, spent=spent, retry_after=asked, chance=chance)

    if decision is None:
        assert retry.max_elapsed > 0
        assert spent + retry.max_interval > retry.max_elapsed
    else:
        assert decision.delay >= min(asked, LONGEST_RETRY_AFTER)
        assert decision.delay <= max(retry.max_interval, LONGEST_RETRY_AFTER)
        assert spent <= decision.spent <= spent + retry.max_interval
        assert not retry.max_elapsed or decision.spent <= retry.max_elapsed


@given(retries, st.floats(3600, 1e9), chances)
def test_a_retry_after_beyond_the_longest_time_gives_nothing_up(
    retry: Retry, asked: float, chance: random.Random
) -> None:
    decision = delivery_retry.decide_retry(retry, attempts=1, spent=0.5, retry_after=asked, chance=chance)

    assert decision == RetryDecision(max(3600.0, decision.delay if isinstance(decision, RetryDecision) else 0), 0.5)


def test_without_retry_the_first_failure_is_the_last() -> None:
    decision = delivery_retry.decide_retry(
        Retry(enabled=False),
        attempts=1,
        spent=1.0,
        retry_after=9.0,
        chance=random.Random(1),  # noqa: S311
    )

    assert decision is None


# The breaker


def opened_at_ten(time: Time) -> SendGate:
    """A gate whose breaker opened, so that a probe may go from 15.0 on."""
    gate = SendGate(time.environment(), destination(80, retry=ALWAYS_FIVE))
    time.now = 10.0
    for _ in range(OPENS_AFTER - 1):
        assert not gate.note(DOWN, is_probe=False)
        assert gate.is_up
    assert gate.note(DOWN, is_probe=False)
    return gate


def test_only_failures_in_a_row_open_it_and_then_one_probe_at_a_time_goes() -> None:
    time = Time()
    gate = opened_at_ten(time)
    assert (gate.is_up, gate.may_probe(14.9), gate.may_probe(15.0)) == (False, False, True)

    time.now = 16.0
    gate.probe()
    assert not gate.may_probe(1e9)
    assert not gate.note(DOWN, is_probe=False)  # it was in flight when it opened
    assert not gate.may_probe(1e9)
    assert not gate.note(DOWN, is_probe=True)
    assert (gate.may_probe(20.9), gate.may_probe(21.0)) == (False, True)
    gate.probe()
    assert gate.note(UP, is_probe=True)
    assert gate.is_up


def test_what_the_endpoint_asks_for_is_waited_whichever_request_it_answers_so() -> None:
    time = Time()
    gate = opened_at_ten(time)
    time.now = 11.0
    gate.note(DOWN._replace(retry_after=300.0), is_probe=False)
    assert gate.probe_at == 311.0
    gate.note(DOWN._replace(retry_after=1.0), is_probe=False)
    assert gate.probe_at == 311.0

    gate.probe()
    time.now = 16.0
    gate.note(DOWN._replace(retry_after=300.0), is_probe=False)
    gate.note(DOWN, is_probe=True)
    assert gate.probe_at == 316.0
    gate.probe()
    gate.abandon()
    assert gate.probe_at == 316.0


STEPS = st.tuples(
    st.sampled_from(["ok", "fail", "probe", "abandon"]), st.floats(0, 100), st.sampled_from([0.0, 10.0, 30.0])
)


@given(st.lists(STEPS, max_size=60))
def test_whatever_happens_a_probe_is_always_ahead_or_under_way(steps: list[tuple[str, float, float]]) -> None:
    time, probing = Time(), False
    gate = SendGate(time.environment(), destination(80, retry=ALWAYS_FIVE))
    for step, seconds, asked in steps:
        time.now += seconds
        if step == "ok":
            gate.note(UP, is_probe=probing)
            probing = False
        elif step == "probe" and gate.may_probe(time.now):
            gate.probe()
            probing = True
        elif step == "abandon":
            gate.abandon()
            probing = False
        elif step == "fail":
            gate.note(DOWN._replace(retry_after=asked), is_probe=probing)
            probing = False
        assert gate.is_up or probing or gate.may_probe(time.now + 30.0)


def test_an_abandoned_probe_lets_another_go_at_once() -> None:
    time = Time()
    gate = opened_at_ten(time)
    time.now = 20.0
    gate.probe()
    gate.abandon()
    assert (gate.may_probe(20.0), gate.probe_at) == (True, 20.0)  # due from then on, for who waits for that instant


def test_a_probe_that_fails_after_the_breaker_opened_anew_says_nothing_new() -> None:
    time = Time()
    gate = opened_at_ten(time)
    time.now = 14.0
    assert not gate.note(DOWN, is_probe=True)
    assert gate.probe_at == 15.0


# What answers mean


def said(status: int, *, retry_after: str | None = None, body: bytes = b"") -> delivery_retry.AnswerVerdict:
    headers = () if retry_after is None else (("retry-after", retry_after),)
    answer = HttpAnswer(status, "", headers, body)
    return delivery_retry.judge_answer(answer, endpoint=ENDPOINT, name="siem", now_ms=BEGAN)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_2xx_is_delivered(status: int) -> None:
    assert said(status).delivered


@pytest.mark.parametrize("status", [199, 301, 302, 307, 401, 403, 404, 405, 407, 408, 421, 425, 429, 500, 503, 599])
def test_what_says_nothing_against_the_records_is_an_outage(status: int) -> None:
    verdict = said(status)

    assert (verdict.delivered, verdict.outage, verdict.splits) == (False, True, False)


@pytest.mark.parametrize(("status", "splits"), [(400, True), (413, True), (422, True), (402, False), (415, False)])
def test_other_refusals_are_the_batchs(status: int, splits: bool) -> None:
    verdict = said(status)

    assert (verdict.delivered, verdict.outage, verdict.splits) == (False, False, splits)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "a missing, wrong or expired `Authorization` header"),
        (403, "a missing, wrong or expired `Authorization` header"),
        (404, "a wrong hostname, port or path"),
        (308, "a wrong hostname, port or path"),
        (500, "its server fails"),
    ],
)
def test_the_likely_cause_is_in_the_interfaces_words(status: int, words: str) -> None:
    cause = said(status, body=b"canary-stranger").cause

    assert cause.startswith(f"The destination siem (https://hook.example:443) answered {status}")
    assert words in cause
    assert "canary" not in cause


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("3600", 3600.0),
        ("86400", 3600.0),
        ("9" * 5000, 3600.0),
        ("-5", 0.0),
        ("1.5", 0.0),
        ("soon", 0.0),
        ("", 0.0),
        ("٣", 0.0),
        (formatdate(BEGAN / 1000 + 90, usegmt=True), 90.0),
        (formatdate(BEGAN / 1000 - 90, usegmt=True), 0.0),
        (formatdate(BEGAN / 1000 + 90_000, usegmt=True), 3600.0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Sun, 99 Nov 1994 08:49:37 GMT", 0.0),
        ("Sun, 06 Nov 99999999999 08:49:37 GMT", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_an_hour_at_most(text: str, seconds: float) -> None:
    assert said(503, retry_after=text).retry_after == pytest.approx(seconds, abs=1.0)


@given(st.text(max_size=40))
def test_no_retry_after_breaks_anything(text: str) -> None:
    assert 0.0 <= said(429, retry_after=text).retry_after <= 3600.0


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (FailureCause.NAME, "a wrong hostname; check `hostname`."),
        (FailureCause.CONNECT, "a wrong hostname or port, or its server is down"),
        (FailureCause.TIME, "`timeout` is 5 s"),
        (FailureCause.TLS, "a wrong port or scheme"),
        (FailureCause.UNTRUSTED, "an untrusted certificate"),
        (FailureCause.CLIENT, "a missing client certificate"),
        (FailureCause.ANSWER, "a wrong port or scheme"),
        (FailureCause.PROXY, "`outbound.proxy`"),
    ],
)
def test_no_answer_is_an_outage_with_a_likely_cause(cause: FailureCause, words: str) -> None:
    problem = Unanswered(HttpTarget("https", "hook.example", 443), cause, "did something")
    verdict = delivery_retry.judge_failure(problem, endpoint=ENDPOINT, name="siem")

    assert (verdict.delivered, verdict.outage, verdict.status) == (False, True, None)
    assert verdict.cause.startswith("The destination siem (https://hook.example:443) did something: ")
    assert words in verdict.cause


def test_what_may_not_be_connected_to_is_an_outage() -> None:
    problem = Denied(HttpTarget("https", "hook.example", 443), "is link-local")
    verdict = delivery_retry.judge_failure(problem, endpoint=ENDPOINT, name="siem")

    assert verdict.outage
    assert "its address is link-local" in verdict.cause


# Requests


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("", "/"),
        ("/", "/"),
        ("/a/b", "/a/b"),
        ("//a", "/a"),
        ("/a?b=c//d&e", "/a?b=c//d&e"),
        ("/?x=/", "/?x=/"),
    ],
)
def test_one_slash_stands_between_port_and_path_and_the_query_is_kept(path: str, sent: str) -> None:
    assert http_sender.request_target(Endpoint(host="h", path=path)).path == sent


def test_content_type_and_our_own_headers_win_and_each_is_sent_once() -> None:
    wanted = Endpoint(host="h", content_type="application/x-ndjson")
    given_ones = (
        ("content-TYPE", "text/plain"),
        ("x-service-delivery-id", "forged"),
        ("X-Service-Attempt", "0"),
        ("User-Agent", "theirs"),
    )
    to = http_sender.request_target(wanted)
    headers = http_sender.request_headers(wanted, given_ones)
    request = http_sender.make_request(wanted, to=to, headers=headers, body=b"[]", delivery="a/b/1:1-2", attempt=3)

    assert request.headers == (
        ("Content-Type", "application/x-ndjson"),
        ("User-Agent", "theirs"),
        ("X-Service-Delivery-Id", "a/b/1:1-2"),
        ("X-Service-Attempt", "3"),
    )


def test_a_delivery_id_holds_what_headers_may_hold_and_tells_a_new_queue_from_an_old_one() -> None:
    one = http_sender.endpoint_origin(project="acme", destination="collect:0 ü", at=BEGAN)

    assert one == f"acme/collect%3A0%20%C3%BC/{BEGAN:x}"
    assert one != http_sender.endpoint_origin(project="acme", destination="collect:0 ü", at=BEGAN + 1)


def test_parts_of_a_batch_have_ids_of_their_own() -> None:
    whole = batches.send_batch(batches.Lease(Batch(7, 5, 100, BEGAN)))
    first, second = whole.halve()
    ids = [one.delivery_id(project="p", destination="d") for one in (whole, first, second)]
    alone = second.part([(3,), (2, 4)])[0]

    start = f"p/d/{BEGAN:x}:7"
    assert ids == [f"{start}-7", f"{start}:0-1", f"{start}:2-4"]
    assert alone.delivery_id(project="p", destination="d", is_single=True) == f"{start}:3"


# What is left of a batch


@given(st.lists(st.lists(st.text(max_size=300), max_size=6), min_size=1, max_size=5), st.data())
def test_what_is_left_of_a_batch_is_a_request_with_those_records(groups: list[list[str]], data: st.DataObject) -> None:
    payload = b"".join(otlp(*texts) for texts in groups)
    texts = [text for group in groups for text in group]
    keep = data.draw(st.sets(st.sampled_from(range(len(texts))))) if texts else set()

    left = skeletons.keep_records(payload, frozenset(keep))

    assert bodies(left) == [text for place, text in enumerate(texts) if place in keep]
    assert keep or not left


@given(st.binary(max_size=200))
def test_what_is_no_request_is_told(payload: bytes) -> None:
    with suppress(ValueError):
        skeletons.keep_records(payload, frozenset({0}))
