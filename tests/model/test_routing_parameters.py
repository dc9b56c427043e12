"""The values of a webhook become a destination, defaults and all."""

from typing import Any

import pytest

from reconciler.model import builtins, component_types, routes
from reconciler.model.component_types import ComponentType
from reconciler.model.names import Key
from reconciler.model.routes import Buffering, Destination, Endpoint, Format, OnFull, Retry, Schedule, Storage, Sync
from reconciler.model.values import Value


def built_in(key: Key) -> ComponentType:
    return component_types.compiled(key.name, component_types.read_definitions(builtins.built_in()[key]["spec"]))


WEBHOOK, STORAGE = built_in(routes.WEBHOOK_TYPE), built_in(routes.STORAGE_TYPE)


STORAGES = {"file_storage_persistent_queue": Storage(), "own": Storage(directory="own")}


def listed(values: dict[str, Any]) -> list[Value]:
    return [{"name": name, "value": value} for name, value in values.items()]


def destination(**values: Any) -> Destination | None:
    given = listed({"hostname": "siem.example.com", **values})
    return routes.destination("siem", given, WEBHOOK, storage_of=STORAGES.get)


def test_what_is_left_out_is_as_the_type_says_which_is_what_the_shared_values_say() -> None:
    assert destination() == Destination(name="siem", endpoint=Endpoint(host="siem.example.com"))


def test_every_parameter_counts() -> None:
    assert destination(
        scheme="https",
        port="443",
        path="/logs?a=b",
        verb="PUT",
        content_type="text/plain",
        format="single",
        headers={"Authorization": "Bearer ${env:DESTINATION_DEFAULT__TOKEN}", "X-Team": "a"},
        timeout=7,
        insecure_skip_verify="true",
        ca_file="ca.pem",
        mutual_tls=True,
        cert_file="c.pem",
        key_file="k.pem",
        retry_on_failure_enabled=False,
        retry_on_failure_initial_interval=1,
        retry_on_failure_max_interval=2,
        retry_on_failure_max_elapsed_time=0,
        sending_queue_num_consumers=1,
        sending_queue_queue_size=3,
        persistent_queue_storage="own:5",
        on_full="drop_newest",
        delivery_schedule="0 22 * * 1-5",
        delivery_window=90,
        delivery_timezone="Europe/Berlin",
    ) == Destination(
        name="siem",
        endpoint=Endpoint(
            scheme="https",
            host="siem.example.com",
            port=443,
            path="/logs?a=b",
            verb="PUT",
            content_type="text/plain",
            format=Format.SINGLE,
            headers=(("Authorization", "Bearer ${env:DESTINATION_DEFAULT__TOKEN}"), ("X-Team", "a")),
            timeout=7.0,
            insecure_skip_verify=True,
            ca_file="ca.pem",
            mutual_tls=True,
            cert_file="c.pem",
            key_file="k.pem",
        ),
        retry=Retry(enabled=False, initial_interval=1.0, max_interval=2.0, max_elapsed=0.0),
        buffering=Buffering(consumers=1, max_batches=3, on_full=OnFull.DROP_NEWEST, storage=STORAGES["own"]),
        schedule=Schedule(cron="0 22 * * 1-5", window=90, timezone="Europe/Berlin"),
    )


def test_where_it_does_not_matter_what_concerns_tls_is_left_out() -> None:
    files = {"ca_file": "ca.pem", "cert_file": "c.pem", "key_file": "k.pem"}
    plain = destination(scheme="http", insecure_skip_verify=True, mutual_tls=True, **files)
    assert plain == Destination(name="siem", endpoint=Endpoint(scheme="http", host="siem.example.com"))
    one_sided = destination(**files)
    assert one_sided == Destination(name="siem", endpoint=Endpoint(host="siem.example.com", ca_file="ca.pem"))


def test_a_file_may_be_written_as_a_reference() -> None:
    given = {"ca_file": "${file:siem/ca.pem}", "cert_file": "${file:c.pem}", "key_file": "/etc/key.pem"}
    made = destination(mutual_tls=True, **given)
    assert made is not None
    endpoint = made.endpoint
    assert (endpoint.ca_file, endpoint.cert_file, endpoint.key_file) == ("siem/ca.pem", "c.pem", "/etc/key.pem")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"sending_queue_enabled": False}, Buffering(queue=False, storage=None)),
        ({"persistent_queue_enabled": False}, Buffering(storage=None)),
        ({"delivery_window": 5}, Buffering(storage=Storage())),
    ],
)
def test_a_queue_is_on_disk_in_memory_or_nowhere(values: dict[str, Any], expected: Buffering) -> None:
    found = destination(**values)
    assert found is not None
    assert found.buffering == expected
    assert found.schedule is None


@pytest.mark.parametrize(
    "values",
    [
        {"hostname": ""},
        {"port": 0},
        {"on_full": "drop_oldest"},
        {"delivery_window": "8h"},
        {"delivery_window": 10_081},
        {"delivery_schedule": "soon"},
        {"path": "lo gs"},
        {"nothing": 1},
    ],
)
def test_what_does_not_fit_the_type_is_no_destination(values: dict[str, Any]) -> None:
    assert destination(**values) is None


def test_without_a_type_or_its_storage_there_is_no_destination() -> None:
    assert routes.destination("siem", listed({"hostname": "h"}), None, storage_of=STORAGES.get) is None
    assert destination(persistent_queue_storage="gone") is None
    assert routes.queue_storage("own", [], None) is None


def test_a_storage_lies_in_a_folder_of_its_own_name_unless_it_has_another() -> None:
    assert routes.queue_storage("own", [], STORAGE) == Storage(directory="own")
    given = listed({"directory": "queues", "max_bytes": 5, "sync": "interval"})
    assert routes.queue_storage("own", given, STORAGE) == Storage(directory="queues", max_bytes=5, sync=Sync.INTERVAL)
    assert routes.queue_storage("own", listed({"directory": "../up"}), STORAGE) is None
