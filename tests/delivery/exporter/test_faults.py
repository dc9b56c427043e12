"""Faults of networks and endpoints, over real sockets: nothing is lost, and the cause is reported."""

import asyncio
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconciler.delivery import tls
from reconciler.delivery.batches import MOST_WAITING
from reconciler.delivery.queue.contract import BATCH_RECORDS, Shortage
from reconciler.delivery.reporting import ExporterState, SendFailure
from reconciler.model.routes import Retry, Schedule
from tests.delivery.exporter.queues import ListQueue
from tests.delivery.exporter.worlds import (
    BEGAN,
    Time,
    attempts,
    destination,
    exporting,
    otlp,
    pass_time,
    put,
    quiet,
    refusing_for_an_hour,
    sent,
    settle,
    single,
    sources,
    when_told,
)
from tests.delivery.queue import places
from tests.servers import sinks
from tests.servers.certificates import Authority
from tests.servers.sinks import Reply, Sink

pytestmark = pytest.mark.anyio

ONCE = Retry(enabled=False)


async def failure(port: int, **more: object) -> SendFailure:
    """Return the report of one failed delivery; its records become dead letters of an outage."""
    queue = ListQueue()
    await put(queue, ["1"])
    secrets = more.pop("secrets", None)
    async with exporting(destination(port, retry=ONCE, **more), queue, secrets=secrets) as exporter:  # type: ignore[arg-type]
        await sent(exporter)
        told = exporter.shown().last_failure
    ((letter, _),) = queue.dead.values()
    assert told is not None
    assert letter.final_failure.outage
    assert letter.final_failure.cause == told.cause
    return told


# The network


@pytest.mark.parametrize(
    "fault",
    [sinks.reset(), sinks.closes(), sinks.half_closes(), sinks.silent(), sinks.long_head(), sinks.gibberish()],
    ids=["reset", "closes", "half-closes", "silent", "long-head", "gibberish"],
)
async def test_what_got_no_answer_is_sent_again(sink: Sink, fault: Reply) -> None:
    queue = ListQueue()
    await put(queue, ["1"], ["2"])
    sink.script(fault, sinks.says(200))
    async with exporting(destination(sink.port, timeout=1.0), queue) as exporter:
        await sent(exporter)
        failed = exporter.shown().last_failure

    assert sink.records == [1, 2]
    assert attempts(sink) == ["1", "2"]
    assert failed is not None
    assert failed.status is None
    assert f"(http://127.0.0.1:{sink.port}) " in failed.cause


@pytest.mark.parametrize(
    "answer",
    [sinks.endless(200), sinks.endless(200, chunk=b"x", every=0.05), sinks.cut(200)],
    ids=["endless", "trickle", "cut-off"],
)
async def test_an_accepted_request_is_not_sent_twice_for_the_body_of_the_answer(sink: Sink, answer: Reply) -> None:
    queue = ListQueue()
    await put(queue, ["1"])
    sink.script(answer)
    async with exporting(destination(sink.port, timeout=1.0), queue) as exporter:
        await sent(exporter)

    assert len(sink.received) == 1


async def test_an_endless_answer_is_read_no_further_than_its_limit(sink: Sink) -> None:
    sink.script(sinks.endless(503))
    told = await failure(sink.port, timeout=2.0)

    assert (told.status, len(told.answer)) == (503, 1024)


async def test_a_name_that_does_not_resolve_is_told() -> None:
    told = await failure(80, host="nowhere.invalid")

    assert "does not resolve: a wrong hostname; check `hostname`." in told.cause


async def test_a_port_that_nobody_listens_on_is_told(sink: Sink) -> None:
    sink.refuse()
    told = await failure(sink.port)

    assert "takes no connection: a wrong hostname or port" in told.cause


async def test_a_redirect_is_not_followed(sink: Sink) -> None:
    with sinks.listening() as other:
        sink.script(sinks.redirects(f"http://127.0.0.1:{other.port}/"))
        told = await failure(sink.port)

        assert (told.status, other.received) == (307, [])


async def test_where_the_service_may_not_connect_to_is_told() -> None:
    told = await failure(80, host="169.254.169.254")

    assert "nothing is sent" in told.cause or "cannot be made" in told.cause


# TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


def secret(folder: Path, **files: Path) -> Path:
    """The folder of secrets, with files of the project `acme`."""
    (folder / "acme").mkdir(exist_ok=True)
    for name, source in files.items():
        (folder / "acme" / f"{name}.pem").write_bytes(source.read_bytes())
    return folder


async def test_an_untrusted_certificate_is_told_and_with_its_authority_it_is_trusted(
    tmp_path: Path, authority: Authority
) -> None:
    queue = ListQueue()
    with sinks.listening(tls=authority.issue().context()) as secure:
        told = await failure(secure.port, scheme="https")
        assert "an untrusted certificate" in told.cause
        assert "set `ca_file`" in told.cause

        await put(queue, ["1"])
        wanted = destination(secure.port, scheme="https", ca_file="ca.pem")
        async with exporting(wanted, queue, secrets=sources(secret(tmp_path, ca=authority.bundle))) as exporter:
            await sent(exporter)
        assert secure.records == [1]


async def test_a_certificate_for_another_name_is_not_trusted(tmp_path: Path, authority: Authority) -> None:
    with sinks.listening(tls=authority.issue("DNS:other.example", name="other").context()) as secure:
        told = await failure(
            secure.port,
            scheme="https",
            ca_file="ca.pem",
            secrets=sources(secret(tmp_path, ca=authority.bundle)),
        )
    assert "an untrusted certificate, or one for another name" in told.cause
    assert secure.received == []


async def test_without_verification_any_certificate_will_do(authority: Authority) -> None:
    queue = ListQueue()
    await put(queue, ["1"])
    with sinks.listening(tls=authority.issue().context()) as secure:
        wanted = destination(secure.port, scheme="https", insecure_skip_verify=True)
        async with exporting(wanted, queue) as exporter:
            await sent(exporter)
        assert secure.records == [1]


async def test_plain_http_on_the_other_side_is_told(sink: Sink) -> None:
    told = await failure(sink.port, scheme="https", timeout=0.3)  # it waits for the rest of a request

    assert "did not answer in time: a wrong hostname or port" in told.cause


def demanding(authority: Authority) -> ssl.SSLContext:
    """A server that takes no client without a certificate of the authority."""
    context = authority.issue().context()
    context.load_verify_locations(authority.bundle)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def test_a_missing_client_certificate_is_told(tmp_path: Path, authority: Authority) -> None:
    with sinks.listening(tls=demanding(authority)) as secure:
        told = await failure(
            secure.port,
            scheme="https",
            ca_file="ca.pem",
            secrets=sources(secret(tmp_path, ca=authority.bundle)),
        )
    assert "a missing client certificate; set `mutual_tls`" in told.cause


async def test_a_client_certificate_is_shown_and_read_again_when_it_changes(
    tmp_path: Path, authority: Authority
) -> None:
    stranger = Authority.make(tmp_path / "stranger")
    wrong, right = stranger.issue(name="client"), authority.issue(name="client")
    secrets = sources(secret(tmp_path, ca=authority.bundle, cert=wrong.chain, key=wrong.key))
    queue = ListQueue()
    with sinks.listening(tls=demanding(authority)) as secure:
        wanted = destination(
            secure.port, scheme="https", ca_file="ca.pem", mutual_tls=True, cert_file="cert.pem", key_file="key.pem"
        )
        async with exporting(wanted, queue, secrets=secrets) as exporter:
            await put(queue, ["1"])
            await settle(lambda: exporter.shown().last_failure is not None)
            failed = exporter.shown().last_failure
            assert failed is not None
            assert "a client certificate that it does not trust; renew `cert_file`" in failed.cause

            secret(tmp_path, cert=right.chain, key=right.key)
            await sent(exporter)
        assert secure.records == [1]


async def test_an_expired_client_certificate_is_told(tmp_path: Path, authority: Authority) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    expired = authority.issue(name="expired", until=yesterday)
    secrets = sources(secret(tmp_path, ca=authority.bundle, cert=expired.chain, key=expired.key))
    with sinks.listening(tls=demanding(authority)) as secure:
        told = await failure(
            secure.port,
            scheme="https",
            ca_file="ca.pem",
            mutual_tls=True,
            cert_file="cert.pem",
            key_file="key.pem",
            secrets=secrets,
        )
    assert f"the client certificate in `cert_file` expired on {yesterday:%Y-%m-%d}; renew it." in told.cause


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "`ca_file` leads to nothing"),
        ({"ca": "no PEM", "cert": "x", "key": "x"}, "`ca_file` does not hold certificates"),
        ({"ca": "", "cert": "x", "key": "x"}, "`ca_file` leads to nothing"),
        ({"ca": "CA"}, "`cert_file` leads to nothing"),
        ({"ca": "CA", "cert": "canary-x", "key": "canary-y"}, "do not hold a certificate and its key"),
    ],
    ids=["no-ca", "bad-ca", "empty-ca", "no-certificate", "bad-certificate"],
)
async def test_a_file_of_tls_that_cannot_be_used_is_told(
    tmp_path: Path, authority: Authority, files: dict[str, str], words: str
) -> None:
    (tmp_path / "acme").mkdir()
    for name, text in files.items():
        text = authority.bundle.read_text() if text == "CA" else text  # noqa: PLW2901
        (tmp_path / "acme" / f"{name}.pem").write_text(text)
    told = await failure(
        443,
        scheme="https",
        ca_file="ca.pem",
        mutual_tls=True,
        cert_file="cert.pem",
        key_file="key.pem",
        secrets=sources(tmp_path),
    )

    assert words in told.cause
    assert "canary" not in told.cause


# Secrets


async def test_secrets_are_resolved_when_they_are_used_and_a_new_one_counts(tmp_path: Path, sink: Sink) -> None:
    (tmp_path / "acme").mkdir()
    token = tmp_path / "acme" / "token"
    token.write_text("old\n")
    queue = ListQueue()
    wanted = destination(
        sink.port, headers=(("Authorization", "Bearer ${file:token}"), ("X-Tenant", "${env:TENANT}-1"))
    )
    sink.choose(lambda one: sinks.says(200 if one.header("Authorization") == "Bearer new" else 401))
    async with exporting(wanted, queue, secrets=sources(tmp_path, TENANT="north")) as exporter:
        await put(queue, ["1"])
        await settle(lambda: bool(sink.received))
        token.write_text("new")
        await sent(exporter)

    assert sink.received[0].header("Authorization") == "Bearer old"
    assert [one.header("X-Tenant") for one in sink.accepted] == ["north-1"]


async def test_a_reference_that_leads_to_nothing_fails_the_delivery_and_sends_no_empty_header(
    tmp_path: Path, sink: Sink
) -> None:
    told = await failure(sink.port, headers=(("Authorization", "Bearer ${file:token}"),), secrets=sources(tmp_path))

    assert sink.received == []
    assert "`${file:token}` leads to nothing" in told.cause
    assert str(tmp_path / "acme" / "token") in told.cause


async def test_a_secret_that_no_header_may_hold_is_not_sent(tmp_path: Path, sink: Sink) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "token").write_text("canary-1\r\nX-Evil: 1\n")
    told = await failure(sink.port, headers=(("Authorization", "${file:token}"),), secrets=sources(tmp_path))

    assert sink.received == []
    assert "(`Authorization`)" in told.cause
    assert "canary" not in told.cause


# Outages


@pytest.mark.parametrize("hours", [3, pytest.param(24, marks=pytest.mark.slow)])
async def test_an_outage_of_hours_loses_nothing_and_asks_one_at_a_time(sink: Sink, hours: int) -> None:
    queue, time = ListQueue(), Time()
    sink.script(sinks.says(503))
    wanted = destination(sink.port, retry=Retry())
    async with exporting(wanted, queue, environment=time.environment()) as exporter:
        for number in range(hours):
            await put(queue, *([f"{number}-{one}"] for one in range(50)))
            await pass_time(time, exporter, seconds=3600)
            assert exporter.shown().state is ExporterState.DOWN
        asked = len(sink.received)
        assert hours * 3_600 / 45 < asked < hours * 3_600 / 15 + 50
        assert (len(queue.batches), queue.dead) == (hours * 50, {})
        assert exporter.waiting <= hours * 50

        sink.script(sinks.says(200))
        await pass_time(time, exporter, seconds=60)

        assert sorted(sink.records) == sorted(f"{number}-{one}" for number in range(hours) for one in range(50))
        assert (queue.batches, queue.dead, exporter.shown().state) == ({}, {}, ExporterState.IDLE)


async def test_an_outage_of_a_day_loses_nothing_of_what_the_quota_of_a_queue_on_disk_took(
    sink: Sink, tmp_path: Path
) -> None:
    time, quota, taken, refused = Time(), 3_000, list[str](), list[Shortage]()
    sink.script(sinks.says(503))
    wanted = destination(sink.port, retry=Retry(max_interval=600.0))
    async with (
        places.opened(tmp_path, places.Wanted(max_batches=quota // BATCH_RECORDS)) as queue,
        exporting(wanted, queue, environment=time.environment()) as exporter,
    ):
        for hour in range(24):
            appends = []
            for text in (f"{hour}-{one}" for one in range(150)):
                payload = otlp(text)
                shortage = queue.room(size=len(payload))
                if shortage is None:
                    appends.append(queue.append([payload], records=1, at=BEGAN))
                    taken.append(text)
                else:
                    refused.append(shortage)
            await asyncio.gather(*appends)
            await pass_time(time, exporter, seconds=3600)
        depth = queue.depth()
        assert (len(taken), refused) == (quota, [Shortage.BATCHES] * (24 * 150 - quota))
        assert MOST_WAITING <= exporter.waiting < quota
        assert (depth.batches, depth.dead_batches, exporter.shown().state) == (quota, 0, ExporterState.DOWN)

        sink.script(sinks.says(200))
        await pass_time(time, exporter, seconds=1_000)
        depth = queue.depth()
        assert (depth.batches, depth.dead_batches, depth.lost, exporter.shown().state) == (0, 0, 0, ExporterState.IDLE)

    assert sorted(sink.records) == sorted(taken)


async def test_single_outlasts_an_outage_without_asking_for_every_record(sink: Sink) -> None:
    queue, time = ListQueue(), Time()
    sink.script(sinks.says(503))
    wanted = single(destination(sink.port, consumers=4, retry=Retry()))
    async with exporting(wanted, queue, environment=time.environment()) as exporter:
        await put(queue, [str(number) for number in range(500)])
        await pass_time(time, exporter, seconds=3600)
        assert len(sink.received) < 260
        assert (sorted(queue.batches), queue.dead) == ([1], {})

        sink.script(sinks.says(200))
        await pass_time(time, exporter, seconds=60)
        assert sorted(sink.records) == list(range(500))


async def test_dead_letters_of_an_outage_are_replayed_when_it_ends_and_no_others(sink: Sink) -> None:
    queue, time = ListQueue(), Time()
    sink.choose(lambda one: sinks.says(415 if b"bad" in one.body else 503))
    wanted = destination(sink.port, retry=ONCE)
    async with exporting(wanted, queue, environment=time.environment()) as exporter:
        for text in ("bad", "a", "b", "c", "d", "e"):
            await put(queue, [text])
            await settle(lambda: exporter.in_flight == 0 and not queue.batches)
        assert exporter.shown().state is ExporterState.DOWN
        assert len(queue.dead) == 6
        await put(queue, ["f"])

        sink.choose(lambda one: sinks.says(415 if b"bad" in one.body else 200))
        await pass_time(time, exporter, seconds=60)

        assert sorted(sink.records) == ["a", "b", "c", "d", "e", "f"]
        assert [letter.final_failure.status for letter, _ in queue.dead.values()] == [415]


async def test_dead_letters_of_an_outage_before_a_restart_are_replayed_with_the_first_success(sink: Sink) -> None:
    queue, time = ListQueue(), Time()
    sink.script(sinks.says(503))
    async with exporting(destination(sink.port, retry=ONCE), queue, environment=time.environment()) as exporter:
        await put(queue, ["1"])
        await sent(exporter)
    sink.script(sinks.says(200))
    async with exporting(destination(sink.port, retry=ONCE), queue, environment=time.environment()) as exporter:
        await put(queue, ["2"])
        await settle(lambda: len(sink.accepted) == 2)
        await sent(exporter)

    assert (sink.records, queue.dead) == ([2, 1], {})


async def test_a_record_over_which_the_server_fails_does_not_hold_up_the_others_for_ever(sink: Sink) -> None:
    queue, time = ListQueue(), Time()
    sink.choose(lambda one: sinks.says(500 if b"bad" in one.body else 200))
    wanted = destination(sink.port, retry=Retry())
    async with exporting(wanted, queue, environment=time.environment()) as exporter:
        await put(queue, ["bad"])
        await pass_time(time, exporter, seconds=200)
        assert exporter.shown().state is ExporterState.DOWN
        await put(queue, ["good"])
        await pass_time(time, exporter, seconds=90)
        assert sink.records == ["good"]


async def test_a_record_over_which_the_server_fails_while_others_arrive_is_no_outages(sink: Sink) -> None:
    queue, time = ListQueue(), Time()
    sink.choose(lambda one: sinks.says(500 if b"bad" in one.body else 200))
    wanted = destination(sink.port, retry=Retry())
    async with exporting(wanted, queue, environment=time.environment()) as exporter:
        await put(queue, ["bad"])
        for number in range(200):
            await pass_time(time, exporter, seconds=2)
            await put(queue, [str(number)])
        await pass_time(time, exporter, seconds=2)

        assert len(sink.accepted) == 200
        assert [letter.final_failure.outage for letter, _ in queue.dead.values()] == [False]


async def test_when_the_endpoint_is_back_all_that_waited_for_it_goes_at_once(sink: Sink) -> None:
    queue, time = ListQueue(), Time()
    late = sinks.says(503, headers=(("Retry-After", "3600"),))
    sink.script(late, *[sinks.says(503)] * 4, sinks.says(200))
    async with exporting(destination(sink.port, retry=Retry()), queue, environment=time.environment()) as exporter:
        for number in range(5):
            await put(queue, [str(number)])
            await settle(lambda: exporter.in_flight == 0 and not queue.unclaimed)
        assert exporter.shown().state is ExporterState.DOWN
        await pass_time(time, exporter, seconds=8)

        assert sorted(sink.records) == [0, 1, 2, 3, 4]


async def test_only_the_records_that_may_be_sent_find_out_whether_the_endpoint_is_back(sink: Sink) -> None:
    queue, time = ListQueue(), Time()
    asked = sinks.says(503, headers=(("Retry-After", "300"),))
    sink.choose(lambda one: asked if one.body == b"[0]" else sinks.says(503))
    async with exporting(destination(sink.port, retry=Retry()), queue, environment=time.environment()) as exporter:
        for number in range(5):
            await put(queue, [str(number)])
            await settle(lambda: exporter.in_flight == 0 and not queue.unclaimed)
        assert exporter.shown().state is ExporterState.DOWN
        await pass_time(time, exporter, seconds=299)
        assert [one.body for one in sink.received].count(b"[0]") == 1
        assert len(sink.received) > 10

        await pass_time(time, exporter, seconds=100)
        assert [one.body for one in sink.received].count(b"[0]") == 2


async def test_an_endpoint_that_is_corrected_is_tried_at_once(sink: Sink) -> None:
    queue, time = ListQueue(), Time()
    sink.script(sinks.says(404))
    wanted = destination(sink.port, retry=Retry())
    async with exporting(wanted, queue, environment=time.environment()) as exporter:
        await put(queue, ["1"], ["2"])
        await pass_time(time, exporter, seconds=600)
        assert exporter.shown().state is ExporterState.DOWN
        with sinks.listening() as right:
            exporter.change(destination(right.port, retry=Retry()))
            await pass_time(time, exporter, seconds=0)
            assert (right.records, exporter.shown().state) == ([1, 2], ExporterState.IDLE)


@pytest.mark.parametrize("consumers", [1, 10])
async def test_a_probe_of_the_old_endpoint_that_is_answered_late_does_not_delay_a_corrected_one(
    sink: Sink, consumers: int
) -> None:
    queue, time, told = ListQueue(), Time(), threading.Event()
    sink.script(*[sinks.says(503)] * 5, refusing_for_an_hour(told))
    wanted = destination(sink.port, consumers=consumers, retry=Retry())
    async with exporting(wanted, queue, environment=time.environment()) as exporter:
        await put(queue, ["1"])
        while exporter.shown().state is not ExporterState.DOWN:
            await pass_time(time, exporter, seconds=1)
        while not exporter.in_flight:
            time.advance(time.now + 1)
            await quiet()
        await settle(lambda: len(sink.received) == 6)
        with sinks.listening() as right:
            exporter.change(destination(right.port, consumers=consumers, retry=Retry()))
            told.set()
            await pass_time(time, exporter, seconds=0)
            assert (right.records, exporter.shown().state) == ([1], ExporterState.IDLE)


async def test_what_the_old_endpoint_asks_for_late_does_not_delay_a_corrected_one_that_is_down_itself(
    sink: Sink,
) -> None:
    queue, time, told = ListQueue(), Time(), threading.Event()
    late = refusing_for_an_hour(told)
    sink.choose(lambda one: late if one.body == b"[5]" else sinks.says(503))
    wanted = destination(sink.port, retry=Retry())
    async with exporting(wanted, queue, environment=time.environment(most_records=1)) as exporter:
        await put(queue, *([str(number)] for number in range(6)))
        await settle(lambda: exporter.shown().state is ExporterState.DOWN and exporter.in_flight == 1)
        with sinks.listening() as right:
            right.script(sinks.says(503), sinks.says(200))
            exporter.change(destination(right.port, retry=Retry()))
            await settle(lambda: len(right.received) == 1 and exporter.in_flight == 1)
            told.set()
            await pass_time(time, exporter, seconds=60)
            assert (sorted(right.records), exporter.shown().state) == ([0, 1, 2, 3, 4, 5], ExporterState.IDLE)


@pytest.mark.parametrize("consumers", [1, 10])
async def test_what_an_endpoint_refused_for_an_hour_goes_to_a_corrected_one_at_once(sink: Sink, consumers: int) -> None:
    queue, time = ListQueue(), Time()
    sink.script(sinks.says(409, headers=(("Retry-After", "3600"),)))
    wanted = destination(sink.port, consumers=consumers, retry=Retry())
    async with exporting(wanted, queue, environment=time.environment()) as exporter:
        await put(queue, ["1"])
        await pass_time(time, exporter, seconds=60)
        assert exporter.shown().state is ExporterState.WAITING
        with sinks.listening() as right:
            exporter.change(destination(right.port, consumers=consumers, retry=Retry()))
            await pass_time(time, exporter, seconds=0)
            assert (right.records, exporter.shown().state) == ([1], ExporterState.IDLE)


async def test_what_the_old_endpoint_finds_too_large_late_does_not_cut_what_a_corrected_one_gets(sink: Sink) -> None:
    queue, time, told = ListQueue(), Time(), threading.Event()
    texts = ["x" * 1_000] * 200
    sink.script(when_told(told, 413))
    wanted = destination(sink.port, consumers=1, retry=Retry())
    async with exporting(wanted, queue, environment=time.environment()) as exporter:
        await put(queue, texts)
        await settle(lambda: len(sink.received) == 1)
        with sinks.listening() as right:
            exporter.change(destination(right.port, consumers=1, retry=Retry()))
            told.set()
            await put(queue, texts)
            await pass_time(time, exporter, seconds=0)
            assert [len(one.json) for one in right.received] == [100, 100, 200]


# Clocks and windows


@pytest.mark.parametrize("jump", [-10 * 365 * 86_400.0, 86_400.0, 10 * 365 * 86_400.0])
async def test_a_clock_that_jumps_neither_stalls_nor_drops_anything(sink: Sink, jump: float) -> None:
    queue, time = ListQueue(), Time()
    sink.script(sinks.says(503), sinks.says(503), sinks.says(200))
    wanted = destination(sink.port, retry=Retry())
    async with exporting(wanted, queue, environment=time.environment()) as exporter:
        await put(queue, ["1"])
        await settle(lambda: exporter.waiting == 1)
        time.jump = jump
        await pass_time(time, exporter, seconds=25)

        assert (sink.records, queue.batches, queue.dead) == ([1], {}, {})


async def test_outside_of_its_window_nothing_is_claimed_and_a_jump_of_the_clock_is_noticed(sink: Sink) -> None:
    queue, time = ListQueue(), Time()
    begins = datetime.fromtimestamp(time.clock() / 1000, UTC) + timedelta(hours=3)
    schedule = Schedule(cron=f"{begins.minute} {begins.hour} * * *", window=10)
    wanted = destination(sink.port, schedule=schedule)
    async with exporting(wanted, queue, environment=time.environment()) as exporter:
        await put(queue, ["1"])
        await pass_time(time, exporter, seconds=2 * 3600)
        assert (sink.received, exporter.shown().state) == ([], ExporterState.CLOSED)
        await pass_time(time, exporter, seconds=3600 + 60)
        assert sink.records == [1]

        await pass_time(time, exporter, seconds=3600)
        await put(queue, ["2"])
        await pass_time(time, exporter, seconds=60)
        assert sink.records == [1]
        time.jump -= 3600  # back into the window
        await pass_time(time, exporter, seconds=60)
        assert sink.records == [1, 2]


async def test_what_waits_when_the_window_closes_waits_for_the_next_one_and_that_does_not_count(sink: Sink) -> None:
    queue, time = ListQueue(), Time()
    begins = datetime.fromtimestamp(time.clock() / 1000, UTC)
    schedule = Schedule(cron=f"{begins.minute} {begins.hour} * * *", window=1)
    sink.script(sinks.says(415))
    wanted = destination(sink.port, schedule=schedule, retry=Retry(max_elapsed=90.0))
    async with exporting(wanted, queue, environment=time.environment()) as exporter:
        await put(queue, ["1"])
        await pass_time(time, exporter, seconds=23 * 3600)
        assert len(sink.received) < 10
        assert (len(queue.batches), queue.dead) == (1, {})
        sink.script(sinks.says(200))
        await pass_time(time, exporter, seconds=2 * 3600)
        assert sink.records == [1]


def test_an_empty_file_of_authorities_is_not_taken_for_those_of_the_system(tmp_path: Path) -> None:
    empty = tmp_path / "ca.pem"
    empty.touch()
    endpoint = destination(443, scheme="https").endpoint
    files = tls.read_tls_file(endpoint, sources=sources(tmp_path), project="acme", authorities=empty)

    with pytest.raises(tls.UnusableFile, match=r"^`outbound.caFile` does not hold certificates in PEM"):
        tls.tls_context(endpoint, files)


async def test_what_the_old_endpoint_takes_late_does_not_say_that_a_corrected_one_is_back(sink: Sink) -> None:
    queue, time, told = ListQueue(), Time(), threading.Event()
    sink.choose(lambda one: when_told(told, 200) if one.body == b"[5]" else sinks.says(503))
    wanted = destination(sink.port, retry=Retry())
    async with exporting(wanted, queue, environment=time.environment(most_records=1)) as exporter:
        await put(queue, *([str(number)] for number in range(6)))
        await settle(lambda: exporter.shown().state is ExporterState.DOWN and exporter.in_flight == 1)
        with sinks.listening() as right:
            right.script(sinks.says(503))
            exporter.change(destination(right.port, retry=Retry()))
            told.set()
            await settle(lambda: exporter.counts.delivered == 1 and exporter.in_flight == 0)
            assert exporter.shown().state is ExporterState.DOWN
