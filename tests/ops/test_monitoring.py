"""The alert rules and the dashboard ask for what there is, and for nothing else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.git.faults import RepositoryState
from reconciler.model.outcomes import UpdateStatus
from reconciler.ops.metric_families import MetricFamily, MetricKind
from tests.ops import promtool
from tests.ops.scraping import FAMILIES

FOLDER = promtool.ROOT / "examples/monitoring"
RULES = FOLDER / "rules.yml"
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())

NAME = re.compile(r"\b(?:reconciler|process|python)_[a-z_]+\b")
SELECTOR = re.compile(r"\b((?:reconciler|process|python)_[a-z_]+)\{([^}]*)\}")
LABEL = re.compile(r"(\w+)(?:=~|!~|!=|=)")
GROUPED = re.compile(r"\b(?:by|on) ?\(([^)]*)\)")
OF_A_SCRAPE = frozenset({"instance", "job", "le"})  # which Prometheus adds, and what histograms have
OF_THE_DASHBOARD = {"$__rate_interval": "5m", "$instance": ".*", "$project": ".*"}


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def of_the_dashboard() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


def expressions() -> list[str]:
    return [rule["expr"] for rule in alerts()] + [*of_the_dashboard()]


def family(name: str) -> MetricFamily:
    """The family of a sample's name."""
    known = {one.name: one for one in FAMILIES}
    for one in FAMILIES:
        if one.kind is MetricKind.HISTOGRAM:
            known |= {f"{one.name}_{end}": one for end in ("bucket", "sum", "count")}
    assert name in known, f"there is no metric {name}"
    return known[name]


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_and_every_label_that_is_asked_for_is_there(expression: str) -> None:
    without_texts = re.sub(r'"[^"]*"', '""', expression)
    names = NAME.findall(without_texts)
    assert names or expression == 'up{job="reconciler"} == 0'
    labels = {label for name in names for label in family(name).labels} | OF_A_SCRAPE
    for name, selectors in SELECTOR.findall(without_texts):
        assert {*LABEL.findall(selectors)} <= {*family(name).labels} | OF_A_SCRAPE
    for grouped in GROUPED.findall(without_texts):
        assert {one.strip() for one in grouped.split(",")} <= labels


def test_every_state_and_status_that_an_alert_names_is_one() -> None:
    for expression in expressions():
        for named in re.findall(r'reconciler_repository_state\{[^}]*\bstate[=!]~?"([^"]*)"', expression):
            assert {*named.split("|")} <= {*RepositoryState}
        for named in re.findall(r'reconciler_repository_resources\{[^}]*\bstatus=~"([^"]*)"', expression):
            assert {*named.split("|")} <= {*UpdateStatus}


def test_every_alert_has_a_severity_and_says_what_happened() -> None:
    for rule in alerts():
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}
        assert rule["alert"].startswith("Reconciler")


def test_every_alert_is_tested() -> None:
    tests = yaml.safe_load((FOLDER / "rules_test.yml").read_text())["tests"]
    fired = {one["alertname"] for test in tests for one in test["alert_rule_test"] if one["exp_alerts"]}
    assert fired == {rule["alert"] for rule in alerts()}


def test_the_rules_are_what_promtool_takes_and_alert_when_they_should() -> None:
    assert "SUCCESS" in promtool.checked("check", "rules", RULES)
    assert "SUCCESS" in promtool.checked("test", "rules", FOLDER / "rules_test.yml")


def test_the_dashboard_s_expressions_are_what_promtool_takes(tmp_path: Path) -> None:
    asked = []
    for number, expression in enumerate(of_the_dashboard()):
        filled = re.sub(r"\$\w+", lambda found: OF_THE_DASHBOARD[found[0]], expression)
        asked.append({"record": f"panel:{number}", "expr": filled})
    rules = tmp_path / "rules.yml"
    rules.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": asked}]}))
    assert f"{len(asked)} rules found" in promtool.checked("check", "rules", rules)


def test_the_scrape_configuration_is_what_promtool_takes(tmp_path: Path) -> None:
    configuration = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    (job,) = configuration["scrape_configs"]
    key = tmp_path / "key"
    key.write_text("canary-key")
    job["authorization"]["credentials_file"] = str(key)
    configuration["rule_files"] = [str(RULES)]
    changed = tmp_path / "prometheus.yml"
    changed.write_text(json.dumps(configuration))
    assert "SUCCESS" in promtool.checked("check", "config", changed)


def test_the_dashboard_has_no_two_panels_in_one_place() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert all(x < 24 for x, _ in cells)
        taken |= cells
