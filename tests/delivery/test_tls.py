"""TLS and secrets of requests, whose files come, change and go while the daemon runs; and hosts.

What fails here for a file waits for its next attempt, so all of it fails first, then all files are renewed, and each
test sees to its own. The daemon logs at its finest level; at its end the log is searched for every secret in use here.
"""

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import canaries, daemons, needs
from tests.daemons import Daemon
from tests.delivery import secret_files
from tests.delivery.lines import Line
from tests.servers import sinks
from tests.servers.certificates import Authority, Certificate
from tests.servers.sinks import Received, Reply, Sink

BODY = "canary-body"
YESTERDAY = datetime.now(UTC) - timedelta(days=1)
OURS: dict[str, Any] = {"scheme": "https", "ca_file": "ca.pem"}


class Renewed(NamedTuple):
    """A line whose file was wrong when a record was sent, and has been renewed: what was told, and had come, before."""

    line: Line
    told: str
    early: list[Received]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def daemon(files: Path) -> Iterator[Daemon]:
    with daemons.running(files / "daemon", settings={"log": {"level": "debug"}}) as running:
        yield running
    told = running.output()
    keys = [line for file in files.rglob("*.key") for line in file.read_text().splitlines()]
    assert keys
    assert [line for line in keys if line in told] == []


@pytest.fixture(scope="module")
def authority(files: Path, daemon: Daemon) -> Authority:
    """Whom destinations trust by `ca.pem`."""
    made = Authority.make(files / "authority")
    secret_files.put(daemon, "ca.pem", made.bundle)
    return made


@pytest.fixture(scope="module")
def stranger(files: Path) -> Authority:
    return Authority.make(files / "stranger")


@pytest.fixture(scope="module")
def demanding(authority: Authority) -> ssl.SSLContext:
    """Return the TLS context of an endpoint that requires a client certificate of the authority."""
    context = authority.issue().context()
    context.load_verify_locations(authority.bundle)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.fixture(scope="module")
def renewed(
    daemon: Daemon, authority: Authority, stranger: Authority, demanding: ssl.SSLContext
) -> Iterator[dict[str, Renewed]]:
    """By what was wrong: a record of each has failed, and then every file was renewed."""
    put = partial(secret_files.put, daemon)
    put("own.pem", authority.bundle)
    show(daemon, "untrusted", stranger.issue(name="client"))
    show(daemon, "expired", authority.issue(name="client", until=YESTERDAY))
    put("token", "canary-old")
    put("missing", "canary-missing")
    with ExitStack() as stack:

        def begun(tls: ssl.SSLContext | None = None, **parameters: Any) -> Line:
            return Line(daemon, stack.enter_context(sinks.listening(tls=tls))).begin(**parameters)

        found = {
            "authority": begun(stranger.issue().context(), **OURS | {"ca_file": "own.pem"}),
            "untrusted": begun(demanding, **mutual("untrusted")),
            "expired": begun(demanding, **mutual("expired")),
            "token": begun(headers={"Authorization": "Bearer ${file:token}"}),
            "missing": begun(headers={"Authorization": "Bearer ${file:missing}", "X-Key": "canary-key"}),
        }
        found["token"].sink.choose(only("Bearer canary-new"))
        secret_files.place(daemon, "missing").unlink()
        for line in found.values():
            line.sent(BODY)
        before = {what: Renewed(line, failed(line), [*line.sink.received]) for what, line in found.items()}
        put("own.pem", stranger.bundle)
        for name in ("untrusted", "expired"):
            show(daemon, name, authority.issue(name="client"))
        put("token", "canary-new\n")
        put("missing", "canary-back")
        yield before


def test_the_authority_of_the_file_is_trusted_and_no_other_until_the_file_changes(renewed: dict[str, Renewed]) -> None:
    line, told, early = renewed["authority"]
    assert told == (
        f"The destination {line.name} (https://127.0.0.1:{line.sink.port}) shows a certificate that is not trusted: "
        "an untrusted certificate, or one for another name; check `hostname`, or set `ca_file`."
    )
    assert early == []
    line.arrives(BODY)


def test_a_client_certificate_that_is_not_trusted_is_told_and_a_new_one_counts_without_a_restart(
    renewed: dict[str, Renewed],
) -> None:
    line, told, early = renewed["untrusted"]
    assert told.endswith("a client certificate that it does not trust; renew `cert_file` and `key_file`.")
    assert early == []
    line.arrives(BODY)


def test_an_expired_client_certificate_is_told_and_a_new_one_counts_without_a_restart(
    renewed: dict[str, Renewed],
) -> None:
    line, told, early = renewed["expired"]
    assert told.endswith(f": the client certificate in `cert_file` expired on {YESTERDAY:%Y-%m-%d}; renew it.")
    assert early == []
    line.arrives(BODY)


def test_a_rotated_secret_is_in_the_header_of_the_next_request(renewed: dict[str, Renewed]) -> None:
    line, told, early = renewed["token"]
    assert told.endswith(
        "answered 401: a missing, wrong or expired `Authorization` header; renew what `headers` holds."
    )
    assert [request.header("Authorization") for request in early] == ["Bearer canary-old"]
    line.arrives(BODY)
    *refused, taken = (request.header("Authorization") for request in line.sink.received)
    assert (set(refused), taken) == ({"Bearer canary-old"}, "Bearer canary-new")


def test_without_the_file_of_a_secret_nothing_is_sent_until_it_is_there(renewed: dict[str, Renewed]) -> None:
    line, told, early = renewed["missing"]
    place = secret_files.place(line.daemon, "missing")
    assert told == (
        f"The destination {line.name}: the request cannot be made: `${{file:missing}}` leads to nothing: put a file of "
        f"text, not empty and of at most 64 KiB, at {place}, which the service can read and to which no link leads."
    )
    assert early == []
    line.arrives(BODY)
    (request,) = line.sink.received
    assert (request.header("Authorization"), request.header("X-Key")) == ("Bearer canary-back", "canary-key")
    assert request.header("X-Service-Attempt") != "1"


def test_a_certificate_for_another_name_is_not_trusted(daemon: Daemon, authority: Authority) -> None:
    with sinks.listening(tls=authority.issue("DNS:elsewhere.example", name="other").context()) as other:
        line = Line(daemon, other).begin(**OURS)
        line.sent(BODY)
        assert "an untrusted certificate, or one for another name" in failed(line)
        assert other.received == []
        line.set(insecure_skip_verify=True)
        line.arrives(BODY)


def test_a_missing_client_certificate_is_told_and_with_one_it_arrives(
    daemon: Daemon, authority: Authority, demanding: ssl.SSLContext
) -> None:
    with sinks.listening(tls=demanding) as secure:
        line = Line(daemon, secure).begin(**OURS)
        line.sent(BODY)
        assert failed(line).endswith("a missing client certificate; set `mutual_tls`, `cert_file` and `key_file`.")
        assert secure.received == []
        show(daemon, "client", authority.issue(name="client"))
        line.set(**mutual("client"))
        line.arrives(BODY)


@pytest.mark.parametrize("hostname", ["::1", "[::1]"])
def test_an_endpoint_may_be_an_address_of_ipv6(daemon: Daemon, hostname: str) -> None:
    needs.require_ipv6()
    with sinks.listening(address="::1") as sink:
        line = Line(daemon, sink).begin(hostname=hostname)
        line.sent(BODY)
        line.arrives(BODY)
        assert sink.received[0].header("Host") == f"[::1]:{sink.port}"
        sink.refuse()
        told = daemon.post(f"/v1/destinations/{line.name}/delivery/test", {}).body["test"]
        assert f"(http://[::1]:{sink.port}) takes no connection" in told["message"]


def test_what_the_endpoint_says_back_is_shown_without_secrets_and_not_logged(daemon: Daemon, sink: Sink) -> None:
    line = Line(daemon, sink).begin(headers={"X-Key": "canary-echoed"}, retry_on_failure_enabled=False)
    sink.choose(lambda request: sinks.says(400, body=str(request).encode()[:900]))
    line.sent(BODY)
    shown = line.becomes(lambda found: found["counts"]["dead"] == 1, "it is a dead letter")
    assert "(sensitive)" in shown["lastFailure"]["answer"]
    assert "POST" in shown["lastFailure"]["answer"]
    assert "canary-echoed" not in shown["lastFailure"]["answer"]
    assert canaries.leaks(shown["lastFailure"]["cause"].encode()) == []
    daemons.until(
        lambda: [one for one in daemon.messages() if line.name in one and "dead letter" in one] or None, "told"
    )
    assert canaries.leaks(daemon.log.read_bytes()) == []


def show(daemon: Daemon, name: str, certificate: Certificate) -> None:
    """Put a client certificate and its key where destinations look for them."""
    secret_files.put(daemon, f"{name}/cert.pem", certificate.chain)
    secret_files.put(daemon, f"{name}/key.pem", certificate.key)


def mutual(name: str) -> dict[str, Any]:
    """The parameters with which that is looked for; both ways to name a file mean the same."""
    files = {"cert_file": f"{name}/cert.pem", "key_file": f"${{file:{name}/key.pem}}"}
    return {**OURS, "mutual_tls": True, **files}


def failed(line: Line) -> str:
    """The likely cause of the last failure, once there is one; it holds no secret."""
    shown = line.becomes(lambda found: found["lastFailure"] is not None, "it failed")
    cause = str(shown["lastFailure"]["cause"])
    assert canaries.leaks(cause.encode()) == []
    return cause


def only(credential: str) -> Callable[[Received], Reply]:
    """Take what has this credential, and say to the rest what it had."""

    def decide(request: Received) -> Reply:
        shown = request.header("Authorization") or ""
        return sinks.says(200) if shown == credential else sinks.says(401, body=shown.encode())

    return decide
