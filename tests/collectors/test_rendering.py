"""A Configuration becomes what a Collector runs: pipelines, names, order, secrets, limits."""

import time
from collections.abc import Mapping
from itertools import chain, repeat
from typing import Any

import pytest
import yaml

from reconciler.collectors.components import BLOCKS, PARTS, Unrenderable
from reconciler.collectors.rendering import Renderer, Rendering
from reconciler.model import builtins
from reconciler.model.names import Key
from reconciler.model.secret_references import AvailableSecrets
from reconciler.model.values import Value


def component(type_name: str, /, **parameters: Value) -> dict[str, Value]:
    return {"type": type_name, "parameters": [{"name": name, "value": value} for name, value in parameters.items()]}


def rendered(spec: Value, resources: Mapping[Key, Value] | None = None) -> Rendering:
    known = {key: document["spec"] for key, document in builtins.built_in().items()} | dict(resources or {})
    return Renderer(known.get).render(spec)


def result(spec: Value, resources: Mapping[Key, Value] | None = None) -> Any:
    loaded: Any = yaml.safe_load(rendered(spec, resources).text)
    return loaded


def pipelines(whole: Any) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = whole["service"]["pipelines"]
    return found


BATCH: Value = component("batch", timeout=1)
LIBRARY: dict[Key, Value] = {
    Key("Source", "app"): {**component("otlp"), "processors": [BATCH]},
    Key("Processor", "shared"): component("resource", upsert={"team": "a"}),
    Key("Destination", "out"): {**component("otlphttp"), "processors": [BATCH]},
    Key("Destination", "off"): {**component("debug"), "disabled": True},
}


def test_each_source_is_joined_with_each_destination_for_each_signal() -> None:
    whole = result(
        {
            "sources": [{"name": "app"}, component("filelog")],
            "destinations": [{"name": "out"}, {"name": "off"}, component("debug")],
        },
        LIBRARY,
    )
    assert [*pipelines(whole)] == [
        "logs/app__destination2-2",
        "metrics/app__destination2-2",
        "traces/app__destination2-2",
        "logs/app__out-0",
        "metrics/app__out-0",
        "traces/app__out-0",
        "logs/source1__destination2-2",
        "logs/source1__out-0",
    ]
    assert sorted(whole["receivers"]) == ["filelog/source1", "otlp/app"]


def test_the_order_of_processors() -> None:
    source: Value = {"name": "app", "processors": [{"name": "shared"}]}
    disabled: dict[str, Value] = {**component("batch"), "disabled": True}
    destination: Value = {"name": "out", "processors": [component("redaction"), disabled]}
    whole = result(
        {"sources": [source], "processors": [component("attributes", delete=["x"])], "destinations": [destination]},
        LIBRARY,
    )
    assert pipelines(whole)["logs/app__out-0"]["processors"] == [
        "batch/app__processor0",
        "resource/app__processor1",
        "attributes/processor0",
        "batch/out-0__processor0",
        "redaction/out-0__processor1",
    ]


def test_a_resource_and_the_entry_that_names_it_may_have_a_processor_of_one_type() -> None:
    source: Value = {"name": "app", "processors": [component("batch", timeout=3)]}
    whole = result({"sources": [source], "destinations": [component("debug")]}, LIBRARY)
    names = pipelines(whole)["logs/app__destination0-0"]["processors"]
    assert names == ["batch/app__processor0", "batch/app__processor1"]
    assert [whole["processors"][name]["timeout"] for name in names] == ["1ms", "3ms"]


def test_the_same_destination_may_come_twice() -> None:
    whole = result({"sources": [{"name": "app"}], "destinations": [{"name": "out"}, {"name": "out"}]}, LIBRARY)
    assert sorted(whole["exporters"]) == ["otlphttp/out-0", "otlphttp/out-1"]


def test_the_same_source_may_not() -> None:
    with pytest.raises(Unrenderable, match="Source `app` is named twice"):
        rendered({"sources": [{"name": "app"}, {"name": "app"}], "destinations": [component("debug")]}, LIBRARY)


@pytest.mark.parametrize("spec", [None, {}, {"sources": [{"name": "app"}]}, {"sources": [component("prometheus")]}])
def test_nothing_to_join_is_a_configuration_that_does_nothing(spec: Value) -> None:
    whole = result(spec, LIBRARY)
    assert pipelines(whole) == {"logs": {"receivers": ["nop"], "exporters": ["nop"]}}


def test_extensions_are_collected_once() -> None:
    template = "- file_storage/a:\n    directory: /var/lib/otelcol\n"
    keeping: Value = {"logs": {"receivers": "- nop:", "extensions": template}}
    sources: list[Value] = [component("keeping"), component("keeping")]
    whole = result({"sources": sources, "destinations": [component("debug")]}, {Key("SourceType", "keeping"): keeping})
    service = whole["service"]
    assert service["extensions"] == ["file_storage/source0__a", "file_storage/source1__a"]


def test_the_same_input_gives_the_same_bytes() -> None:
    spec: Value = {"sources": [{"name": "app"}], "destinations": [{"name": "out"}]}
    first = rendered(spec, LIBRARY)
    assert first == rendered(spec, dict(reversed(LIBRARY.items())))
    assert len(first.hash) == 64


def test_a_reference_to_the_environment_passes_through() -> None:
    destination = component("otlphttp", headers={"Authorization": "Bearer ${env:TOKEN}"}, endpoint="${env:URL}")
    whole = result({"sources": [{"name": "app"}], "destinations": [destination]}, LIBRARY)
    exporter = whole["exporters"]
    [config] = exporter.values()
    assert config["headers"] == {"Authorization": "Bearer ${env:TOKEN}"}
    assert config["endpoint"] == "${env:URL}"


def test_a_secret_that_the_service_holds_is_never_rendered() -> None:
    destination = component("otlphttp", headers={"Authorization": "(sensitive)"})
    with pytest.raises(Unrenderable) as caught:
        rendered({"sources": [{"name": "app"}], "destinations": [destination]}, LIBRARY)
    assert caught.value.parameter == "headers"
    assert "Destination 0 (in place): the service holds the value of `headers` as a secret" in caught.value.reason
    assert "${env:NAME}" in caught.value.reason


def test_a_value_of_a_parameter_that_the_type_does_not_define_is_left_out() -> None:
    plain: dict[str, Value] = {"sources": [component("otlp")], "destinations": [component("debug")]}
    for value in ("(sensitive)", "${file:token}"):
        assert rendered({**plain, "sources": [component("otlp", grpc_max_connection_idle=value)]}) == rendered(plain)


def test_a_template_that_needs_such_a_value_says_so() -> None:
    needing: Value = {"logs": {"receivers": "- otlp: {{ .token }}"}}
    with pytest.raises(Unrenderable) as caught:
        rendered(
            {"sources": [component("needing", token="(sensitive)")], "destinations": [component("debug")]},
            {Key("SourceType", "needing"): needing},
        )
    assert (caught.value.parameter, caught.value.line) == ("token", 1)
    assert "the service holds the value of `token` as a secret" in caught.value.reason


def test_the_signals_of_a_component_by_hand_may_be_written_large_as_elsewhere() -> None:
    by_hand = component("custom", telemetry_types=["Logs", "Traces"], configuration="otlp_http: {endpoint: 'http://a'}")
    whole = result({"sources": [component("otlp")], "destinations": [by_hand]})
    assert [*pipelines(whole)] == ["logs/source0__destination0-0", "traces/source0__destination0-0"]


def test_a_port_of_0_and_files_of_tls() -> None:
    files: dict[str, Value] = {"cert_file": "/c.pem", "key_file": "/k.pem", "mutual_tls": True, "ca_file": "/a.pem"}
    source = component("otlp", grpc_port=0, enable_tls=True, **files)
    whole = result({"sources": [source], "destinations": [component("debug")]})
    shown = {"cert_file": "/c.pem", "key_file": "/k.pem", "client_ca_file": "/a.pem"}
    assert whole["receivers"]["otlp/source0"]["protocols"] == {"http": {"endpoint": "127.0.0.1:4318", "tls": shown}}


def test_what_a_file_is_parsed_for() -> None:
    source = component(
        "file",
        parse_format="json",
        parse_timestamp=True,
        timestamp_field="at",
        parse_timestamp_format="Epoch",
        epoch_timestamp_format="ms",
        timezone="Europe/Berlin",
        parse_severity=True,
        severity_field="level",
        multiline_parsing="specify line end",
        multiline_line_start_pattern="^a",
        multiline_line_end_pattern="z$",
        include_file_name_attribute=False,
        include_file_path_attribute=True,
        include_file_path_resolved_attribute=True,
        poll_interval=500,
        max_concurrent_files=3,
    )
    whole = result({"sources": [source], "destinations": [component("debug")]})
    assert whole["receivers"]["filelog/source0"] == {
        "include": ["/var/log/*.log"],
        "start_at": "end",
        "encoding": "utf-8",
        "include_file_name": False,
        "include_file_path": True,
        "include_file_path_resolved": True,
        "multiline": {"line_end_pattern": "z$"},
        "poll_interval": "500ms",
        "max_concurrent_files": 3,
        "attributes": {"log_type": "file"},
        "operators": [
            {
                "type": "json_parser",
                "parse_to": "attributes",
                "severity": {"parse_from": "attributes.level"},
                "timestamp": {
                    "parse_from": "attributes.at",
                    "layout_type": "epoch",
                    "layout": "ms",
                    "location": "Europe/Berlin",
                },
            }
        ],
    }


def test_a_file_that_the_service_holds_is_never_rendered() -> None:
    held = "Destination 0 (in place): the service holds the value of `{}` as a secret"
    says_so: Value = {"name": "verbosity", "value": "${file:token}", "sensitive": True}
    for destination, name in (
        (component("otlphttp", headers={"Authorization": "${file:gateway/token}"}), "headers"),
        ({**component("debug"), "parameters": [says_so]}, "verbosity"),
    ):
        with pytest.raises(Unrenderable) as caught:
            rendered({"sources": [{"name": "app"}], "destinations": [destination]}, LIBRARY)
        assert caught.value.parameter == name
        assert caught.value.reason.startswith(held.format(name))
    open_one = component("otlphttp", endpoint="${file:/etc/gateway}")
    assert b"${file:/etc/gateway}" in rendered({"sources": [{"name": "app"}], "destinations": [open_one]}, LIBRARY).text


def test_a_variable_of_the_service_is_never_rendered() -> None:
    destination = component("otlphttp", headers={"Authorization": "Bearer ${env:DESTINATION_A__TOKEN}"})
    known = {key: document["spec"] for key, document in builtins.built_in().items()}
    renderer = Renderer(known.get, secrets=AvailableSecrets(patterns=("DESTINATION_A__*",)))
    with pytest.raises(Unrenderable) as caught:
        renderer.render({"sources": [component("otlp")], "destinations": [destination]})
    assert caught.value.parameter == "headers"
    assert "the value of `headers` names a variable that `secrets.env` keeps for the service" in caught.value.reason


def test_a_webhook_runs_in_the_service_and_is_left_out() -> None:
    destinations: list[Value] = [component("webhook", hostname="hook.example"), {"name": "out"}]
    spec: Value = {"sources": [{"name": "app"}], "destinations": destinations}
    assert b"hook.example" not in rendered(spec, LIBRARY).text


@pytest.mark.parametrize(
    ("type_spec", "told"),
    [
        ({"logs": {"receivers": "a:\n- {{ .x }}"}}, "in `logs.receivers` of the type `odd`, line 2: the parameter `x`"),
        ({"logs": {"receivers": "- {{ if }}"}}, "in `logs.receivers` of the type `odd`, line 1: "),
        ({"logs": {"receivers": "{a: 1}"}}, "its output is not one list of components"),
        ({"logs": {"receivers": "- ["}}, "its output is no YAML: "),
        ({"logs": {"receivers": "- plain"}}, "its output has an entry that is not `ID: ...`"),
        ({"logs": {"receivers": '- "a b": 1'}}, "`a b` is not the id of a component"),
        ({"logs": {"receivers": "- a: 1\n- a: 2"}}, "two components have the id `a/source0` and differ"),
    ],
)
def test_a_fault_is_told_with_component_type_and_line(type_spec: Value, told: str) -> None:
    with pytest.raises(Unrenderable) as caught:
        rendered(
            {"sources": [component("odd")], "destinations": [component("debug")]}, {Key("SourceType", "odd"): type_spec}
        )
    assert told in caught.value.reason


def test_what_is_missing_is_named() -> None:
    with pytest.raises(Unrenderable, match="Source `nothing` is missing or cannot be read"):
        rendered({"sources": [{"name": "nothing"}], "destinations": [component("debug")]})
    with pytest.raises(Unrenderable, match="the type `nothing` is missing"):
        rendered({"sources": [component("nothing")], "destinations": [component("debug")]})


def test_too_many_pipelines_are_refused() -> None:
    spec: Value = {"sources": [component("otlp")] * 50, "destinations": [component("debug")] * 50}
    with pytest.raises(Unrenderable, match=r"more than 2,000 pipelines"):
        rendered(spec)


def test_a_configuration_has_two_seconds() -> None:
    instants = chain([0.0, 0.5], repeat(2.5))
    renderer = Renderer(
        {key: document["spec"] for key, document in builtins.built_in().items()}.get, lambda: next(instants)
    )
    with pytest.raises(Unrenderable, match="more than 2 s"):
        renderer.render({"sources": [component("otlp")], "destinations": [component("debug")]})


def test_the_metrics_of_a_category() -> None:
    off = component("hostmetrics", scrapers=["load", "memory"], disabled_metrics=["system.memory.usage"])
    whole = result({"sources": [off], "destinations": [component("debug")]})
    receivers = whole["receivers"]
    [config] = receivers.values()
    assert config["scrapers"] == {
        "load": None,
        "memory": {"metrics": {"system.memory.usage": {"enabled": False}}},
    }


def test_a_long_list_may_be_looked_through_for_many_categories() -> None:
    metrics: list[Value] = [{"name": f"system.paging.operations.{number}"} for number in range(200)]
    categories: list[Value] = [{"label": f"c{number}", "metrics": metrics} for number in range(30)]
    off: Value = [f"system.paging.operations.{number}" for number in range(200)]
    parameter: Value = {"name": "off", "default": off, "options": {"metricCategories": categories}}
    calls = "".join(
        f'{{{{if bpHasCategoryMetricsEnabled .off "off" "c{number}"}}}}x{{{{end}}}}' for number in range(30)
    )
    spec: Value = {"parameters": [parameter], "logs": {"receivers": f"- a: [{calls}]"}}
    whole = result(
        {"sources": [component("own")], "destinations": [component("debug")]}, {Key("SourceType", "own"): spec}
    )
    assert whole["receivers"] == {"a/source0": []}


def test_many_slow_templates_and_a_long_result_end_in_time() -> None:
    slow = "{{range .many}}{{range $.many}}" + "{{$a := 1}}" * 20 + "{{end}}{{end}}- a: [{{range .many}}x, {{end}}x]"
    long = "- a: [" + "x, " * 60_000 + "x]"
    blocks: dict[str, Value] = {one: dict.fromkeys(PARTS, slow) for one in BLOCKS}
    many: Value = {"name": "many", "default": [*range(100)]}
    types: dict[Key, Value] = {
        Key("SourceType", "slow"): {**blocks, "parameters": [many]},
        Key("SourceType", "long"): {"logs": {"receivers": long}},
    }
    for spec in ([component("slow")] * 40, [component("long")] * 40):
        begun = time.thread_time()
        with pytest.raises(Unrenderable, match=r"it takes more than 2 s|it has more than 4,000,000"):
            rendered({"sources": [*spec], "destinations": [component("debug")]}, types)
        assert time.thread_time() - begun < 3


def test_helpers_that_feed_each_other_end_in_time() -> None:
    call = '{{$x = bpRenderStandardParsingOperator "json" $x "" true "t" "" "" "" "" true "s"}}'
    spec: Value = {"logs": {"receivers": '{{$x := "a"}}' + call * 100 + "- a:\n    x: {{quote $x}}\n"}}
    begun = time.thread_time()
    with pytest.raises(Unrenderable, match="makes more than 500,000 characters"):
        rendered({"sources": [{"type": "grows"}]}, {Key("SourceType", "grows"): spec})
    assert time.thread_time() - begun < 3


def test_joining_many_extensions_and_processors_ends_in_time() -> None:
    listed = "{{range $i, $v := .many}}- a/{{$i}}: {a: 1, b: [1, 2]}\n{{end}}"
    many: Value = {"name": "many", "default": [*range(5_000)]}
    wide: Value = {"receivers": "- a:", "processors": listed, "extensions": listed}
    types: dict[Key, Value] = {
        Key("SourceType", "wide"): {"logs": wide, "parameters": [many]},
        Key("DestinationType", "narrow"): {"logs": {"exporters": "- b:"}},
    }
    begun = time.thread_time()
    with pytest.raises(Unrenderable, match="it takes more than 2 s"):
        rendered({"sources": [component("wide")], "destinations": [component("narrow")] * 1_500}, types)
    assert time.thread_time() - begun < 3
