"""The metrics of a real daemon say what happened to it."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.ops.metric_families import MetricKind
from reconciler.version import __version__
from tests import daemons
from tests.daemons import Daemon
from tests.delivery.lines import Line
from tests.ops import promtool
from tests.ops.scraping import FAMILIES, TEXT, Scraped, scrape
from tests.repositories import Repository
from tests.servers import sinks
from tests.servers.sinks import Sink


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemons.running(tmp_path_factory.mktemp("daemon")) as running:
        yield running


@pytest.fixture
def sink() -> Iterator[Sink]:
    with sinks.listening() as listening:
        yield listening


def resource(name: str) -> dict[str, object]:
    return {"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": name}, "spec": {"type": "otlp"}}


def of(daemon: Daemon, name: str, **labels: str) -> float:
    """A value as it is now; 0 where there is no such sample."""
    return scrape(daemon).value(name, **labels) or 0


def until_is(daemon: Daemon, expected: float, name: str, **labels: str) -> Scraped:
    def look() -> Scraped | None:
        found = scrape(daemon)
        return found if found.value(name, **labels) == expected else None

    return daemons.until(look, f"{name} is {expected}")


def test_it_comes_in_the_text_format(daemon: Daemon) -> None:
    found = scrape(daemon)
    assert (found.status, found.content_type) == (200, TEXT)
    assert found.values("reconciler_build_info", version=__version__) != {}


def test_it_takes_a_key_of_that_scope(daemon: Daemon) -> None:
    def key(*scopes: str) -> str:
        made = daemon.post("/v1/api-keys", {"name": "-".join(scopes), "role": "viewer", "scopes": [*scopes]})
        return str(made.body["apiKey"]["key"])

    assert scrape(daemon, key=key("metrics")).status == 200
    assert scrape(daemon, key=key("resources")).status == 403
    assert scrape(daemon, key=key("logs")).status == 403
    assert scrape(daemon, key="rck_6abqaaaaaaaa_canary").status == 401


def test_requests_are_counted_by_route_and_not_by_path(daemon: Daemon) -> None:
    before = scrape(daemon)
    daemon.apply(resource("one"))
    for _ in range(3):
        daemon.get("/v1/resources/Destination/one")
    daemon.get("/v1/resources/Destination/none")
    daemon.get("/canary-nowhere")
    daemon.ask("GET", "/v1/me", None, {"Authorization": "Bearer canary-wrong"})
    after = scrape(daemon)

    def more(**labels: str) -> dict[tuple[str, ...], float]:
        name = "reconciler_http_requests_total"
        earlier = before.values(name, **labels)
        found = {rest: number - earlier.get(rest, 0) for rest, number in after.values(name, **labels).items()}
        return {rest: number for rest, number in found.items() if number}

    one = "/v1/resources/{kind}/{name}"
    assert more(route=one) == {("GET", "2xx"): 3, ("GET", "4xx"): 1}
    assert more(route="/v1/apply") == {("POST", "2xx"): 1}
    assert more(route="unmatched") == {("GET", "4xx"): 2}
    assert more(route="/metrics") == {("GET", "2xx"): 1}
    count = "reconciler_http_request_duration_seconds_count"
    assert (after.value(count, route=one) or 0) - (before.value(count, route=one) or 0) == 4
    assert after.value("reconciler_http_requests_in_flight") == 1
    assert "canary" not in after.text


def test_a_method_that_nobody_knows_makes_no_series_of_its_own(daemon: Daemon) -> None:
    for method in ("PROPFIND", "MKCOL", "REPORT"):
        daemon.ask(method, "/v1/apply", None, {"Authorization": f"Bearer {daemon.key}"})
    found = scrape(daemon).values("reconciler_http_requests_total", route="/v1/apply")
    assert found[("other", "4xx")] == 3
    assert {method for method, _ in found} <= {"other", "POST"}


def test_what_is_stored_grows_the_store(daemon: Daemon) -> None:
    before = scrape(daemon)
    daemon.apply(resource("stored"))
    after = scrape(daemon)
    name = "reconciler_store_commit_duration_seconds_count"
    assert (after.value(name) or 0) > (before.value(name) or 0)
    assert (after.value("reconciler_store_file_bytes") or 0) >= 4096
    assert (after.value("reconciler_store_wal_bytes") or 0) > 4096
    assert after.values("reconciler_store_commit_failures_total") == {("fault",): 0, ("moved",): 0}


def test_a_repository_shows_its_state_its_last_success_and_what_its_last_run_did(
    daemon: Daemon, tmp_path: Path
) -> None:
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", daemons.destination("a"))
    source.write("b.yaml", daemons.destination("b") + "nonsense: 1\n")
    source.commit()
    begun = time.time()
    before = scrape(daemon)
    daemon.follow(daemons.watched("telemetry", source.path, project="shop"))
    run = daemon.run_of("telemetry", source.head())
    assert run["counts"] == {"created": 1, "invalid": 1}
    names = {"project": "shop", "repository": "telemetry"}
    found = until_is(daemon, 1, "reconciler_repository_state", state="ready", **names)
    succeeded = found.value("reconciler_repository_last_success_timestamp_seconds", **names)
    assert succeeded is not None
    assert begun - 1 <= succeeded <= time.time()
    counted = {("Destination", "created"): 1, ("Destination", "invalid"): 1}
    assert found.values("reconciler_repository_resources", **names) == counted
    for name, labels in (
        ("reconciler_runs_total", {"outcome": "partial"}),
        ("reconciler_run_duration_seconds_count", {}),
        ("reconciler_git_fetches_total", {}),
    ):
        assert (found.value(name, **labels) or 0) - (before.value(name, **labels) or 0) == 1, name
    assert (found.value("reconciler_git_looks_total") or 0) > (before.value("reconciler_git_looks_total") or 0)


def test_a_remote_that_fails_is_counted_with_the_state_that_it_leaves(daemon: Daemon, tmp_path: Path) -> None:
    nothing = Repository.init(tmp_path / "nothing")
    daemon.follow(daemons.watched("branchless", nothing.path, project="shop"))
    daemon.state_of("branchless", "empty")
    found = scrape(daemon)
    assert (found.value("reconciler_git_failures_total", call="look", state="empty") or 0) >= 1
    assert found.values("reconciler_repository_state", repository="branchless") == {("shop", "empty"): 1}
    absent = found.value("reconciler_repository_last_success_timestamp_seconds", repository="branchless")
    assert absent is None


def test_a_destination_has_five_series_and_they_tell_its_trouble(daemon: Daemon, sink: Sink) -> None:
    line = Line(daemon, sink).begin(retry_on_failure_enabled=False)
    where = {"project": "default", "destination": line.name}
    before = scrape(daemon)
    line.sent("one", "two")
    line.arrives("one", "two")
    found = until_is(daemon, 2, "reconciler_destination_delivered_records_total", **where)
    sink.script(sinks.says(422))
    line.sent("canary-refused")
    until_is(daemon, 1, "reconciler_destination_dead_letter_records", **where)
    found = until_is(daemon, 0, "reconciler_destination_queue_records", **where)  # it leaves once its letter is on disk
    series = [text for text in found.text.splitlines() if f'destination="{line.name}"' in text]
    labels = f'{{project="default",destination="{line.name}"}}'
    assert series == [
        f"reconciler_destination_queue_records{labels} 0",
        f"reconciler_destination_oldest_record_age_seconds{labels} 0",
        f"reconciler_destination_delivered_records_total{labels} 2",
        f"reconciler_destination_dead_letter_records{labels} 1",
        f"reconciler_destination_up{labels} 1",
    ]
    for name, number in {"taken": 3, "failed": 1, "dead": 1, "retried": 0, "dropped": 0}.items():
        full = f"reconciler_delivery_{name}_records_total"
        assert (found.value(full) or 0) - (before.value(full) or 0) == number, full


def test_a_queue_that_waits_shows_how_long_and_that_its_endpoint_is_down(daemon: Daemon, sink: Sink) -> None:
    sink.script(sinks.says(503))
    line = Line(daemon, sink).begin(sending_queue_queue_size=1, retry_on_failure_max_elapsed_time=0)
    where = {"project": "default", "destination": line.name}
    for _ in range(5):
        line.sent(*["a line"] * 100)
    found = until_is(daemon, 0, "reconciler_destination_up", **where)
    assert found.value("reconciler_destination_queue_records", **where) == 500
    assert (found.value("reconciler_destination_oldest_record_age_seconds", **where) or 0) > 0
    assert (found.value("reconciler_delivery_fullest_queue_ratio") or 0) >= 0.5
    assert (found.value("reconciler_delivery_queue_bytes") or 0) > 0
    sink.script(sinks.says(200))
    found = until_is(daemon, 0, "reconciler_destination_queue_records", **where)
    assert found.value("reconciler_destination_oldest_record_age_seconds", **where) == 0


def test_what_may_be_counted_is_there_before_it_is_so_that_the_first_has_grown_from_nothing(daemon: Daemon) -> None:
    unrouted = "reconciler_delivery_unrouted_records_total"
    daemons.until(lambda: ("default",) in scrape(daemon).values(unrouted) or None, "the project is followed")
    failures = scrape(daemon).values("reconciler_git_failures_total").keys()
    assert {("look", "unreachable"), ("fetch", "mirror-corrupt"), ("look", "other")} < failures
    assert not {state for _, state in failures} & {"ready", "never-read", "prune-held", "suspended"}


def test_records_that_nobody_takes_are_counted_by_project(daemon: Daemon, sink: Sink) -> None:
    line = Line(daemon, sink).begin()
    before = of(daemon, "reconciler_delivery_unrouted_records_total", project="default")
    line.answered("a", "b", label="nobodys")
    assert of(daemon, "reconciler_delivery_unrouted_records_total", project="default") - before == 2


def test_a_count_of_all_destinations_stays_when_one_goes(daemon: Daemon, sink: Sink) -> None:
    line = Line(daemon, sink).begin()
    line.sent("one")
    line.arrives("one")
    where = {"project": "default", "destination": line.name}
    before = until_is(daemon, 1, "reconciler_destination_delivered_records_total", **where)
    daemon.delete(f"/v1/resources/Configuration/{line.name}")
    daemon.delete(f"/v1/resources/Destination/{line.name}")

    def gone() -> Scraped | None:
        found = scrape(daemon)
        return None if found.values("reconciler_destination_queue_records", **where) else found

    found = daemons.until(gone, "the destination is gone")
    taken = "reconciler_delivery_taken_records_total"
    assert found.value(taken) == before.value(taken)


def test_the_process_is_told_under_the_names_that_everybody_uses(daemon: Daemon) -> None:
    found = scrape(daemon)
    assert (found.value("process_cpu_seconds_total") or 0) > 0
    assert (found.value("process_resident_memory_bytes") or 0) > 10 << 20
    assert 5 < (found.value("process_open_fds") or 0) <= (found.value("process_max_fds") or 0)
    assert time.time() - 3600 < (found.value("process_start_time_seconds") or 0) <= time.time()


def test_promtool_finds_nothing_to_mend(daemon: Daemon) -> None:
    assert promtool.checked("check", "metrics", text=scrape(daemon).text) == ""


def test_every_metric_has_a_name_of_its_own_and_a_counter_one_that_says_so() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    for family in FAMILIES:
        assert family.name.endswith("_total") == (family.kind is MetricKind.COUNTER), family
        assert family.name.startswith(("reconciler_", "process_", "python_")), family
        assert "\n" not in family.says


def test_samples_of_a_family_come_together_in_the_order_of_their_labels(daemon: Daemon) -> None:
    text = scrape(daemon).text
    told = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(set(told)) == len(told)
    assert set(told) <= {family.name for family in FAMILIES}
    counted = [line for line in text.splitlines() if line.startswith("reconciler_http_requests_total{")]
    assert counted == sorted(counted)
