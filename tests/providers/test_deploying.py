"""examples/replicas and examples/helm: what is deployed is right, as the programs see it that deploy it."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.settings import loading
from reconciler.settings.models import Settings
from reconciler.version import __version__
from tests import needs
from tests.providers import found

pytestmark = pytest.mark.providers

REPLICAS = found.ROOT / "examples" / "replicas"
CHART = found.ROOT / "examples" / "helm" / "reconciler"
SERVER = (found.ROOT / "reconciler" / "server" / "serving.py").read_text(encoding="utf-8")
KUBERNETES = "1.34.0"
NEEDED = {"store": {"secretName": "database"}}
FULL: dict[str, Any] = {
    "replicas": 5,
    "image": {"repository": "registry.example/reconciler", "tag": "1.2.3", "pullSecrets": ["registry"]},
    "store": {"secretName": "database", "urlKey": "owner", "workerUrlKey": "reader"},
    "settings": {
        "webURL": "https://telemetry.example",
        "trustedProxies": ["10.0.0.0/8"],
        "delivery": {"recordsPerSecond": 5000},
        "repositories": [{"name": "telemetry", "url": "https://git.example/telemetry.git", "branch": "main"}],
    },
    "drainSeconds": 60,
    "environmentSecrets": ["destinations"],
    "fileSecrets": [{"secretName": "git", "path": "/etc/reconciler/git"}],
    "storage": {"size": "100Gi", "className": "fast"},
    "service": {"type": "LoadBalancer", "port": 443, "annotations": {"a": "b"}},
    "spread": "DoNotSchedule",
    "podAnnotations": {"c": "d"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
}
URLS = {
    "SERVICE_STORE_URL": "postgresql://reconciler@db/reconciler",
    "SERVICE_STORE_WORKER_URL": "postgresql://reader@db/reconciler",
}


def run(*arguments: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, input=text, capture_output=True, text=True, timeout=60, check=False)


def helm(command: str, values: Mapping[str, Any], folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    file = folder / "values.json"
    file.write_text(json.dumps(values))
    return run(found.helm(), command, *more, CHART, "--values", file, "--kube-version", KUBERNETES)


def manifests(values: Mapping[str, Any], folder: Path) -> dict[str, dict[str, Any]]:
    """The manifests that Helm makes of the values, by kind and name; each field is one that Kubernetes knows."""
    rendered = helm("template", values, folder, "telemetry", "--namespace", "platform")
    assert rendered.returncode == 0, rendered.stderr
    checked = run(found.deploy(), "manifests", text=rendered.stdout)
    assert checked.returncode == 0, checked.stderr
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in yaml.safe_load_all(rendered.stdout) if one}


def settings_of(text: str, environment: Mapping[str, str], folder: Path) -> Settings:
    file = folder / "config.yaml"
    file.write_text(text)
    loaded = loading.load(config=file, environment=environment, overrides={})
    assert loaded.warnings == ()
    return loaded.settings


# The chart


@pytest.mark.parametrize("values", [NEEDED, FULL], ids=["needed", "full"])
def test_the_chart_has_nothing_to_complain_of(values: Mapping[str, Any], tmp_path: Path) -> None:
    linted = helm("lint", values, tmp_path, "--strict")
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert set(manifests(values, tmp_path)) == {
        "ConfigMap/telemetry-reconciler",
        "PodDisruptionBudget/telemetry-reconciler",
        "Service/telemetry-reconciler",
        "Service/telemetry-reconciler-peers",
        "StatefulSet/telemetry-reconciler",
    }


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "/store/secretName"),
        ({**NEEDED, "replica": 3}, "'replica'"),
        ({**NEEDED, "settings": {"store": {"url": "sqlite:////srv/a.db"}}}, "/settings/store"),
        ({**NEEDED, "settings": {"delivery": {"drainTimeout": "1h"}}}, "/settings/delivery/drainTimeout"),
        ({**NEEDED, "storage": {"size": "ten"}}, "/storage/size"),
    ],
)
def test_wrong_values_are_refused(values: Mapping[str, Any], told: str, tmp_path: Path) -> None:
    refused = helm("template", values, tmp_path, "telemetry")
    assert refused.returncode != 0
    assert told in refused.stderr


def test_the_chart_is_of_this_version() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


def test_each_replica_starts_with_right_settings(tmp_path: Path) -> None:
    made = manifests(FULL, tmp_path)
    (container,) = made["StatefulSet/telemetry-reconciler"]["spec"]["template"]["spec"]["containers"]
    environment = {one["name"]: one.get("value", "") for one in container["env"]}
    environment |= {"SERVICE_REPLICA_NAME": "telemetry-reconciler-2", **URLS}
    environment["SERVICE_REPLICA_URL"] = re.sub(
        r"\$\((\w+)\)", lambda match: environment[match[1]], environment["SERVICE_REPLICA_URL"]
    )
    image = {"SERVICE_LISTEN": "0.0.0.0:3001", "SERVICE_STATE_DIR": "/var/lib/reconciler"}
    text = made["ConfigMap/telemetry-reconciler"]["data"]["config.yaml"]
    settings = settings_of(text, {**image, **environment}, tmp_path)
    assert settings.replica.url == "http://telemetry-reconciler-2.telemetry-reconciler-peers.platform.svc:3001"
    assert (settings.delivery.drain_timeout, settings.delivery.records_per_second) == (60.0, 5000)
    assert settings.store.is_postgresql
    assert environment["SERVICE_STORE_URL"] == URLS["SERVICE_STORE_URL"]


def test_a_replica_keeps_its_volume_and_has_no_powers(tmp_path: Path) -> None:
    spec = manifests(NEEDED, tmp_path)["StatefulSet/telemetry-reconciler"]["spec"]
    pod, (claim,) = spec["template"]["spec"], spec["volumeClaimTemplates"]
    (container,) = pod["containers"]
    mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
    assert mounts["/var/lib/reconciler"]["name"] == claim["metadata"]["name"]
    assert set(mounts) == {"/var/lib/reconciler", "/etc/reconciler/config.yaml", "/tmp"}
    assert set(spec["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    user = int(re.findall(r"^USER (\d+):", (found.ROOT / "Dockerfile").read_text(), re.MULTILINE)[0])
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pod["automountServiceAccountToken"] is False


@pytest.mark.parametrize("drain", [1, 5, 600])
@pytest.mark.parametrize("hands_over", [False, True])
def test_a_stop_has_the_time_that_it_needs(drain: int, hands_over: bool, tmp_path: Path) -> None:
    values = {**NEEDED, "drainSeconds": drain, "settings": {"delivery": {"handOver": hands_over}}}
    pod = manifests(values, tmp_path)["StatefulSet/telemetry-reconciler"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    waits = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["spec"]["terminationGracePeriodSeconds"] > waits + drain * (1 + hands_over) + 5


def test_services_and_budget_choose_the_replicas(tmp_path: Path) -> None:
    made = manifests(FULL, tmp_path)
    replicas = made["StatefulSet/telemetry-reconciler"]["spec"]
    labels, (container,) = replicas["template"]["metadata"]["labels"], replicas["template"]["spec"]["containers"]
    budget = made["PodDisruptionBudget/telemetry-reconciler"]["spec"]
    peers, service = (made[f"Service/telemetry-reconciler{end}"]["spec"] for end in ("-peers", ""))
    for selector in (
        budget["selector"]["matchLabels"],
        peers["selector"],
        service["selector"],
        replicas["selector"]["matchLabels"],
        *(one["labelSelector"]["matchLabels"] for one in replicas["template"]["spec"]["topologySpreadConstraints"]),
    ):
        assert selector.items() <= labels.items()
    assert (budget["maxUnavailable"], replicas["replicas"], replicas["serviceName"]) == (
        1,
        5,
        "telemetry-reconciler-peers",
    )
    assert (peers["clusterIP"], peers["publishNotReadyAddresses"]) == ("None", True)
    assert {one["targetPort"] for one in (*service["ports"], *peers["ports"])} == {container["ports"][0]["name"]}
    probes = {name: container[name]["httpGet"]["path"] for name in container if name.endswith("Probe")}
    assert probes == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}


# The compose file


@pytest.fixture
def project(tmp_path: Path) -> dict[str, Any]:
    """The compose file with all that it names, as Docker Compose's own library reads it."""
    copied = Path(shutil.copytree(REPLICAS, tmp_path / "replicas"))
    read = run(found.deploy(), "compose", copied / "compose.yaml")
    assert read.returncode == 0, read.stderr
    made: dict[str, Any] = json.loads(read.stdout)
    return made


def test_three_replicas_differ_in_name_address_and_volume(project: dict[str, Any]) -> None:
    names = [f"replica-{number}" for number in (1, 2, 3)]
    assert set(project["services"]) == {"postgres", "nginx", *names}
    replicas = [project["services"][name] for name in names]
    assert [one["volumes"][0]["source"] for one in replicas] == ["queue-1", "queue-2", "queue-3"]
    own = ("environment", "volumes", "networks")
    first, *others = [{key: value for key, value in one.items() if key not in own} for one in replicas]
    assert others == [first, first]
    assert (first["read_only"], first["cap_drop"], first["secrets"][0]["source"]) == (
        True,
        ["ALL"],
        "reconciler_pgpass",
    )


def test_the_settings_of_each_replica_are_right(project: dict[str, Any], tmp_path: Path) -> None:
    text = (REPLICAS / "config.yaml").read_text()
    balancer = project["services"]["nginx"]["networks"]["inside"]["ipv4_address"]
    for number in (1, 2, 3):
        service = project["services"][f"replica-{number}"]
        image = {"SERVICE_LISTEN": "0.0.0.0:3001", "SERVICE_STATE_DIR": "/var/lib/reconciler"}
        settings = settings_of(text, {**image, **service["environment"]}, tmp_path)
        address = service["networks"]["inside"]["ipv4_address"]
        assert (settings.replica.name, settings.replica.url) == (f"replica-{number}", f"http://{address}:3001")
        assert [str(one) for one in settings.trusted_proxies] == [f"{balancer}/32"]
        assert f"server {address}:3001 " in (REPLICAS / "nginx.conf").read_text()
        assert "passfile=/run/secrets/reconciler_pgpass" in settings.store.url


def test_the_balancer_keeps_no_connection_that_a_replica_closes() -> None:
    (ours,) = re.findall(r"^KEEP_ALIVE_SECONDS = (\d+)", SERVER, re.MULTILINE)
    (kept,) = re.findall(r"keepalive_timeout (\d+)s;", (REPLICAS / "nginx.conf").read_text())
    assert int(kept) < int(ours)


def test_the_secrets_are_made_once_and_for_whom_they_are(tmp_path: Path) -> None:
    needs.require_root()
    copied = Path(shutil.copytree(REPLICAS, tmp_path / "replicas"))
    assert run(copied / "make-secrets").returncode == 0
    folder = copied / "secrets"
    shown = {one.name: (oct(one.stat().st_mode)[-3:], one.stat().st_uid) for one in (folder, *folder.iterdir())}
    assert shown == {
        "secrets": ("700", 0),
        "postgres_password": ("444", 0),
        "reconciler_password": ("444", 0),
        "worker_password": ("444", 0),
        "reconciler_pgpass": ("400", 10001),
    }
    owner, worker = ((folder / f"{name}_password").read_text() for name in ("reconciler", "worker"))
    assert re.fullmatch(r"[0-9a-f]{48}", owner)
    assert (folder / "reconciler_pgpass").read_text().splitlines() == [
        f"*:*:*:reconciler:{owner}",
        f"*:*:*:reconciler_worker:{worker}",
    ]
    assert run(copied / "make-secrets").returncode != 0
    assert (folder / "reconciler_password").read_text() == owner
