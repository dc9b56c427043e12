"""The other end is not always the service: each case is one plain sentence."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from tests import needs
from tests.cli.conftest import Program, Service, handler

NO_HTTP = (
    "{} gave no HTTP answer; is --server or SERVICE_SERVER right, and does the address begin with https:// when the "
    "service has a certificate?"
)
NO_TLS = "{} does not answer in TLS; without a certificate, its address begins with http://"
BROKEN = "the connection to {} broke before its answer was complete; try again"
TLS_ALERT = b"\x15\x03\x03\x00\x02\x02\x32"


@contextmanager
def answering(data: bytes) -> Iterator[int]:
    """A listener that answers whatever comes with these bytes and hangs up; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(data)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join(timeout=10)


@pytest.mark.parametrize(
    ("scheme", "data", "sentence"),
    [
        ("http", b"", NO_HTTP),
        ("http", b"SSH-2.0-OpenSSH_9.2\r\n", NO_HTTP),
        ("http", TLS_ALERT, NO_HTTP),
        ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}", BROKEN),
        ("http", b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", BROKEN),
        ("https", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", NO_TLS),
        ("https", b"", NO_TLS),
        ("https", TLS_ALERT, NO_TLS),
    ],
)
def test_what_is_no_answer_is_one_sentence(alone: Program, scheme: str, data: bytes, sentence: str) -> None:
    with answering(data) as port:
        url = f"{scheme}://127.0.0.1:{port}"
        assert alone("get", "fleets", "--server", url) == (1, "", f"error: {sentence.format(url)}\n")


@pytest.mark.parametrize("body", [b"<html>", b""])
def test_a_page_of_something_else_is_one_sentence(program: Program, service: Service, body: bytes) -> None:
    service.answer("GET /v1/resources/Fleet", body)
    sentence = "error: the answer is not one of the service; is --server or SERVICE_SERVER right?\n"
    assert program("get", "fleets") == (1, "", sentence)


def openssl(*arguments: str | Path) -> None:
    subprocess.run([needs.require("openssl"), *arguments], check=True, capture_output=True, timeout=30)


def certified(folder: Path, name: str) -> Path:
    """A certificate for a name or address, such as `IP:127.0.0.1`, that no system trusts, with its key beside it."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", f"subjectAltName={name}"]
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *names, "-keyout", key, "-out", certificate)
    return certificate


@contextmanager
def serving(certificate: Path) -> Iterator[str]:
    """A service without resources that shows a certificate; its address."""
    canned = Service()
    canned.answer("GET /v1/resources/Fleet", {"resources": []})
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler(canned)) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_a_certificate_is_trusted_once_its_authority_is_named(alone: Program, tmp_path: Path) -> None:
    certificate = certified(tmp_path, "IP:127.0.0.1")
    proxy = {"HTTPS_PROXY": "http://192.0.2.1:1"}
    with serving(certificate) as url:
        trusted = alone("get", "fleets", "--server", url, SSL_CERT_FILE=str(certificate), **proxy)
        refused = alone("get", "fleets", "--server", url, **proxy)
    assert trusted == (0, "", "no fleets found\n")
    told = f"the certificate of {url} is not trusted; SSL_CERT_FILE can name a file with its authority"
    assert refused == (1, "", f"error: {told}\n")


def test_a_certificate_for_another_name_is_told_as_such(alone: Program, tmp_path: Path) -> None:
    certificate = certified(tmp_path, "DNS:telemetry.example")
    with serving(certificate) as url:
        outcome = alone("get", "fleets", "--server", url, SSL_CERT_FILE=str(certificate))
    told = f"the certificate of {url} is for another name; use a name that it holds, or renew it with this one"
    assert outcome == (1, "", f"error: {told}\n")


def test_an_expired_certificate_is_told_as_such(alone: Program, tmp_path: Path) -> None:
    certificate = certified(tmp_path, "IP:127.0.0.1")
    openssl(
        "x509", "-in", certificate, "-signkey", certificate.with_name("key.pem"), "-days", "-1", "-out", certificate
    )
    with serving(certificate) as url:
        outcome = alone("get", "fleets", "--server", url, SSL_CERT_FILE=str(certificate))
    assert outcome == (1, "", f"error: the certificate of {url} has expired; renew it there\n")


@pytest.mark.parametrize("name", ["missing.pem", "text.pem"])
def test_a_file_without_an_authority_is_one_sentence(alone: Program, name: str) -> None:
    path = alone.write("text.pem", "no certificate\n").with_name(name)
    told = "SSL_CERT_FILE or SSL_CERT_DIR names no file with certificates; correct it or unset it"
    outcome = alone("get", "fleets", "--server", "https://127.0.0.1:1", SSL_CERT_FILE=str(path))
    assert outcome == (1, "", f"error: {told}\n")
