"""`reconciler render`: what a Collector runs, from files."""

import json

import pytest
import yaml

from tests.cli.conftest import Program

CONFIGURATION = """\
apiVersion: service/v1
kind: Configuration
metadata: {name: web}
spec:
  sources:
    - {type: filelog, parameters: [{name: include, value: [/var/log/web.log]}]}
  destinations:
    - {name: gateway}
---
apiVersion: service/v1
kind: Destination
metadata: {name: gateway}
spec:
  type: otlphttp
  parameters:
    - {name: headers, value: {api-key: "KEY"}}
"""


def test_a_configuration_is_printed(alone: Program) -> None:
    alone.write("web.yaml", CONFIGURATION.replace("KEY", "${env:GATEWAY_KEY}"))
    done = alone("render", "web")
    assert done.code == 0
    whole = yaml.safe_load(done.out)
    assert whole["exporters"]["otlphttp/gateway-0"]["headers"] == {"api-key": "${env:GATEWAY_KEY}"}
    assert whole["service"]["pipelines"] == {
        "logs/source0__gateway-0": {"receivers": ["filelog/source0"], "exporters": ["otlphttp/gateway-0"]}
    }


def test_it_can_go_to_a_file(alone: Program) -> None:
    alone.write("web.yaml", CONFIGURATION.replace("KEY", "${env:GATEWAY_KEY}"))
    done = alone("render", "web", "web.yaml", "-o", "out")
    assert (done.code, done.out) == (0, "")
    assert "filelog/source0" in (alone.folder / "out").read_text()


def test_a_secret_is_not_printed(alone: Program) -> None:
    alone.write("web.yaml", CONFIGURATION.replace("KEY", "canary-key"))
    done = alone("render", "web")
    assert done.code == 3
    assert "Destination `gateway`: the service holds the value of `headers` as a secret" in done.err
    assert "canary-key" not in done.out + done.err


def test_what_does_not_run_on_collectors_is_told(alone: Program) -> None:
    more = "destinations:\n    - {type: webhook, id: hook, parameters: [{name: hostname, value: hook.example}]}\n"
    mixed = CONFIGURATION.replace("KEY", "${env:K}").replace("destinations:\n", more)
    alone.write("web.yaml", mixed)
    done = alone("render", "web")
    assert done.err == (
        "/spec/destinations/0 is of type `webhook`, which runs in the service only; collectors leave it out\n"
    )
    alone.write("web.yaml", mixed.replace("spec:\n  sources:", "spec:\n  runsOn: service\n  sources:"))
    done = alone("render", "web")
    assert (done.code, done.err) == (0, "Configuration web runs in the service, and not on collectors\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "web.yaml:2:1: is not valid YAML"),
        ("apiVersion: service/v1\nkind: Configuration\nmetadata: {}\n", "web.yaml:1:1: this document is not valid"),
        ("apiVersion: service/v1\nkind: Fleet\nmetadata: {name: web}\n", "no file holds the Configuration web"),
    ],
)
def test_what_is_wrong_is_told(alone: Program, text: str, told: str) -> None:
    alone.write("web.yaml", text)
    done = alone("render", "web")
    assert done.code != 0
    assert told in done.err


def test_raw_is_printed_as_it_is(alone: Program) -> None:
    raw = "receivers: {nop: {}}\n"
    alone.write(
        "web.yaml", f"apiVersion: service/v1\nkind: Configuration\nmetadata: {{name: web}}\nspec:\n  raw: |\n    {raw}"
    )
    done = alone("render", "web")
    assert done.out == raw


def test_a_variable_that_is_for_the_service_is_not_rendered(alone: Program) -> None:
    alone.write("web.yaml", CONFIGURATION.replace("KEY", "${env:DESTINATION_DEFAULT__KEY}"))
    done = alone("render", "web", "web.yaml")
    assert (done.code, "names a variable that `secrets.env` keeps for the service" in done.err) == (3, True)
    assert alone("render", "web", "web.yaml", "--project", "other").code == 0
    alone.write("settings.json", json.dumps({"secrets": {"env": ["OTHER_*"]}}))
    assert alone("render", "web", "web.yaml", "--config", "settings.json").code == 0
