"""docs/how-to/nginx.md: its nginx before a service with its settings."""

import base64
import http.client
import json
import os
import re
import shlex
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from reconciler.auth import rate_limits
from tests import daemons, needs
from tests.daemons import Daemon
from tests.docs import pages
from tests.scenarios.walks.conftest import free_port

PAGE = pages.read(pages.ROOT / "docs/how-to/nginx.md")
UNPACKED = pages.ROOT / ".venv/nginx/usr/sbin/nginx"
NAME = "reconciler.example.com"
CERTIFICATE = shlex.split(
    "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    f" -subj /CN={NAME} -addext subjectAltName=DNS:{NAME},IP:127.0.0.1"
)
RECORDS = b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "order 17 was paid"}}]}]}]}'


class Front(NamedTuple):
    """nginx, and the service behind it."""

    daemon: Daemon
    port: int
    trusted: ssl.SSLContext

    def ask(
        self, method: str, path: str, body: bytes = b"", *, source: str = "127.0.0.1", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """One request; `source` is the address on this machine that it comes from."""
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=self.trusted, timeout=30, source_address=(source, 0)
        )
        try:
            connection.request(method, path, body, {"Host": NAME, **headers})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()


def settings() -> dict[str, object]:
    (text,) = pages.blocks(PAGE, "yaml")
    found: dict[str, object] = yaml.safe_load(text)
    return found


def configuration(folder: Path, *, port: int, service: int) -> Path:
    """The page's server, with its ports and files here, and what /etc/nginx/nginx.conf would be."""
    (text,) = pages.blocks(PAGE, "nginx")
    for there, here in {
        "127.0.0.1:3001": f"127.0.0.1:{service}",  # first, since another port may begin like this one
        "listen 80;": f"listen 127.0.0.1:{free_port()};",
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "/etc/ssl/reconciler/": f"{folder}/",
    }.items():
        assert text.count(there) >= 1
        text = text.replace(there, here)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    path = folder / "nginx.conf"
    # Root's nginx would read and write as nobody, who cannot come into this folder.
    user = "user root;\n" if os.geteuid() == 0 else ""
    path.write_text(
        f"{user}daemon off;\npid {folder}/pid;\nerror_log {folder}/error;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{places}{text}\n}}\n"
    )
    return path


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    nginx = str(UNPACKED) if UNPACKED.exists() else needs.require("nginx")
    folder, openssl = tmp_path_factory.mktemp("nginx"), needs.require("openssl")
    subprocess.run(
        [openssl, *CERTIFICATE, "-keyout", folder / "privkey.pem", "-out", folder / "fullchain.pem"],
        check=True,
        capture_output=True,
        timeout=30,
    )
    told = {name: value for name, value in settings().items() if name in ("webURL", "trustedProxies")}
    with daemons.running(folder / "daemon", settings=told) as daemon:
        port = free_port()
        config = configuration(folder, port=port, service=daemon.port)
        arguments = [nginx, "-p", str(folder), "-e", str(folder / "error"), "-c", str(config)]
        checked = subprocess.run([*arguments, "-t"], capture_output=True, text=True, timeout=30, check=False)
        assert checked.returncode == 0, checked.stderr
        with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            found = Front(daemon, port, ssl.create_default_context(cafile=str(folder / "fullchain.pem")))
            try:
                daemons.until(lambda: _answers(found), "nginx answers")
                yield found
            finally:
                process.terminate()


def _answers(front: Front) -> bool:
    try:
        return front.ask("GET", "/livez")[0] == 200
    except ConnectionError:
        return False


def test_people_sign_in_and_stay_signed_in(front: Front) -> None:
    password = (front.daemon.state / "initial-admin-password").read_text().strip()
    form = f"name=admin&password={password}&back=/account".encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"https://{NAME}"}
    status, answered, _ = front.ask("POST", "/sign-in", form, **headers)
    assert (status, answered["location"]) == (303, "/account")
    cookie = re.match(r"__Host-reconciler=[^;]+", answered["set-cookie"])
    assert cookie is not None
    status, answered, body = front.ask("GET", "/account", Cookie=cookie[0])
    assert (status, b"admin" in body) == (200, True)
    assert answered["strict-transport-security"].startswith("max-age=")


def test_log_records_come_through(front: Front) -> None:
    key = {"Authorization": f"Bearer {front.daemon.key}", "Content-Type": "application/json"}

    def taken() -> dict[str, str] | None:
        status, _, body = front.ask("POST", "/v1/logs", RECORDS, **key)
        return json.loads(body)["partialSuccess"] if status == 200 else None  # 503 at first: it reads the project

    assert daemons.until(taken, "records are taken")["rejectedLogRecords"] == "1"


def test_what_is_too_large_is_refused(front: Front) -> None:
    key = {"Authorization": f"Bearer {front.daemon.key}", "Content-Type": "application/json"}
    assert front.ask("POST", "/v1/apply", b" " * (8 << 20) + b"{}", **key)[0] == 413
    assert front.ask("POST", "/v1/apply", b" " * (7 << 20) + b'{"resources": []}', **key)[0] == 202


def test_who_guesses_slows_down_nobody_else_whatever_they_claim_to_be(front: Front) -> None:
    def guess(number: int, *, source: str) -> int:
        guessed = base64.b64encode(f"ana:guess {number}".encode()).decode()
        headers = {"Authorization": f"Basic {guessed}", "X-Forwarded-For": f"198.51.100.{number}"}
        return front.ask("GET", "/v1/me", b"", source=source, **headers)[0]

    assert [guess(number, source="127.0.0.2") for number in range(rate_limits.PER_PAIR + 1)] == [
        *[401] * rate_limits.PER_PAIR,
        429,
    ]
    assert guess(99, source="127.0.0.3") == 401
