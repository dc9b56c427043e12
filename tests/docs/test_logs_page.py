"""docs/logs.md: the first record goes its way as told, and the tables are the program's."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests import daemons, needs
from tests.api.contracts import DOCUMENT
from tests.docs import pages

PAGE = pages.read(pages.ROOT / "docs/logs.md")


@contextlib.contextmanager
def receiver(folder: Path) -> Iterator[tuple[str, Iterator[str]]]:
    """The page's own endpoint on a port that is free: that port, and what it shows."""
    (code,) = pages.blocks(PAGE, "python")
    code = code.replace("HTTPServer((", "server = HTTPServer((").replace(
        ").serve_forever()", ")\nprint(server.server_port, flush=True)\nserver.serve_forever()"
    )
    (folder / "receiver.py").write_text(code.replace("8088", "0"))
    command = [sys.executable, str(folder / "receiver.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            lines = (line.strip() for line in process.stdout)
            yield next(lines), lines
        finally:
            process.kill()


def test_the_first_record_arrives(tmp_path: Path) -> None:
    """All that the page has somebody do, on other ports."""
    needs.require("curl")
    beginning = PAGE.partition("## Who may send")[0]
    (first,) = pages.blocks(beginning, "yaml")
    prepare, send, look, send_compressed = pages.blocks(beginning, "sh")
    (answer,) = pages.blocks(beginning, "json")
    with receiver(tmp_path) as (port, shown), daemons.running(tmp_path / "daemon") as daemon:
        (tmp_path / "first.yaml").write_text(first.replace("8088", port))
        url = f"http://{daemon.host}:{daemon.port}"
        path = f"{Path(daemons.COMMAND).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "SERVICE_SERVER": url, "SERVICE_API_KEY": daemon.key, "URL": url}

        def run(commands: str) -> str:
            done = subprocess.run(
                ["sh", "-euc", commands.replace("http://127.0.0.1:3001", url)],
                check=True,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
            return done.stdout

        def sent() -> bool:
            return bool(json.loads(run(send)) == json.loads(answer))  # once the Configuration is read

        run(prepare)
        daemons.until(sent, "the record is taken")
        assert [next(shown)] == re.findall(r"The webhook gets `(.*?)`", PAGE)
        looked = run(look)
        assert "first:out" in looked
        assert looked.endswith("The endpoint of first:out took it.\n")
        assert json.loads(next(shown))[0]["destination"] == "first:out"
        assert json.loads(run(send_compressed)) == {}
        assert next(shown) == '["order 18 was paid"]'


def test_the_page_has_every_answer() -> None:
    shown = {row["status"] for row in pages.table(pages.section(PAGE, "Answers"))}
    assert shown == set(DOCUMENT["paths"]["/v1/logs"]["post"]["responses"])


def test_the_examples_of_settings_are_yaml() -> None:
    for block in pages.blocks(PAGE, "yaml"):
        assert isinstance(yaml.safe_load(block), dict)
