"""`export`: every resource as a file, which can be applied again or followed from Git."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.cli import export
from reconciler.cli.export import PAGE
from reconciler.model import documents, names, positions
from tests import daemons
from tests.cli.conftest import Outcome, Program, Service
from tests.daemons import Daemon
from tests.model.documents import VALUES
from tests.repositories import Repository

SERVER_KEYS = ("dateModified", "hash", "id", "version")


def resource(kind: str, name: str, *, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec or {}}


def component(**values: Any) -> dict[str, Any]:
    parameters = [{"name": name, "value": value} for name, value in values.items()]
    return {"type": "otlp", "parameters": parameters}


RESOURCES = [
    resource("Destination", "Web", spec=component(hostname="a.example.com")),
    resource("Destination", "web", spec=component(hostname="b.example.com", port="4318")),
    resource("Destination", "wEB", spec=component()),
    resource("Fleet", "all", displayName="no", spec={"selector": {"matchLabels": {"name": "1e3"}}}),
    resource("AgentVersion", "v1.2.yaml", spec={"x": [1.5, None, True, "0o17", {"name": "é\n"}], "a": "\x1b[0m\n"}),
    resource("DestinationType", "sink", spec={"version": "1", "parameters": [{"name": "a", "type": "int"}]}),
    resource("DestinationType", "custom", spec={"parameters": []}),  # shadows the one that is built in
    resource("Destination", "sunk", spec={"type": "sink", "parameters": [{"name": "a", "value": 2**63}]}),
    resource("Source", "in", labels={"team": "a", "Team": "b"}, spec={"type": "otlp"}),
    resource(
        "Configuration",
        "edge",
        spec={"sources": [{"name": "in"}], "destinations": [{"name": "Web:latest"}, {"id": "1", "type": "sink"}]},
    ),
    resource("Configuration", "by-hand", spec={"contentType": "text/yaml", "raw": "a: 1\n# b\n#\tc\n"}),
]
FILES = [
    "agent-versions/v1.2.yaml.yaml",
    "configurations/by-hand.yaml",
    "configurations/edge.yaml",
    "destination-types/custom.yaml",
    "destination-types/sink.yaml",
    "destinations/Web.yaml",
    "destinations/sunk.yaml",
    "destinations/wEB~2.yaml",
    "destinations/web~3.yaml",
    "fleets/all.yaml",
    "sources/in.yaml",
]


@dataclass
class Scene:
    """A daemon, and the program to look at one of its projects."""

    daemon: Daemon
    program: Program

    def __call__(self, *arguments: str, project: str) -> Outcome:
        return self.program(*arguments, "--project", project)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("scene")
    projects = []
    for name in ("full", "secret", "other", "small"):
        source = Repository.init(folder / f"source-{name}")
        source.write("keep.yaml", "{}\n")
        source.commit()
        projects.append(daemons.watched(name, source.path, project=name))
    with daemons.running(folder / "daemon", repositories=projects) as daemon:
        address = f"http://127.0.0.1:{daemon.port}"
        yield Scene(daemon, Program(folder, {"SERVICE_SERVER": address, "SERVICE_API_KEY": daemon.key}))


@pytest.fixture(scope="module")
def full(scene: Scene) -> Outcome:
    """The export of a project with resources of many kinds, in the folder `full`."""
    updates = scene.daemon.apply(*RESOURCES, project="full")
    assert [update["status"] for update in updates] == ["created"] * len(RESOURCES), updates
    return scene("export", "full", project="full")


@pytest.mark.usefixtures("full")
def test_a_viewer_exports_all_but_the_text_of_configurations(scene: Scene) -> None:
    made = scene.program("key", "create", "reader", "--role", "viewer", "--project", "full")
    outcome = scene.program("export", "viewed", "--project", "full", SERVICE_API_KEY=made.out.strip())
    remark = "viewed/configurations/by-hand.yaml holds `(sensitive)` in place of its text, which a viewer may not read"
    assert (outcome.code, remark in outcome.err) == (0, True)
    folder = scene.program.folder
    assert files(folder / "viewed") == files(folder / "full")
    differing = [
        name
        for name in files(folder / "full")
        if (folder / "full" / name).read_bytes() != (folder / "viewed" / name).read_bytes()
    ]
    assert differing == ["configurations/by-hand.yaml"]
    assert "raw: (sensitive)" in (folder / "viewed" / "configurations" / "by-hand.yaml").read_text()


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def shown(daemon: Daemon, project: str) -> dict[str, Any]:
    """Return what a project holds, without what says when and by whom; the built-in resources left out."""
    found = {}
    for kind in names.KINDS:
        for each in daemon.resources(kind.name, project=project):
            if each["status"]["source"]["type"] != "builtin":
                metadata = {key: value for key, value in each["metadata"].items() if key not in SERVER_KEYS}
                found[f"{kind.name}/{each['metadata']['name']}"] = (each["metadata"]["hash"], metadata, each["spec"])
    return found


def test_every_resource_gets_a_file(scene: Scene, full: Outcome) -> None:
    counts = "1 agent-version, 2 configurations, 4 destinations, 2 destination-types, 1 fleet, 1 source"
    assert full == (0, f"11 files written to full: {counts}\n", "")
    assert files(scene.program.folder / "full") == FILES


def test_a_file_is_made_to_be_read(scene: Scene, full: Outcome) -> None:  # noqa: ARG001
    assert (scene.program.folder / "full" / "destinations" / "web~3.yaml").read_text() == (
        "apiVersion: service/v1\n"
        "kind: Destination\n"
        "metadata:\n"
        "  name: web\n"
        "spec:\n"
        "  type: otlp\n"
        "  parameters:\n"
        "  - name: hostname\n"
        "    value: b.example.com\n"
        "  - name: port\n"
        "    value: '4318'\n"
    )


def test_an_export_applied_again_changes_nothing(scene: Scene, full: Outcome) -> None:  # noqa: ARG001
    outcome = scene("apply", "-f", "full", project="full")
    assert (outcome.code, outcome.err) == (0, "11 unchanged\n")


def test_an_export_in_git_gives_an_empty_store_the_same_resources(
    scene: Scene,
    full: Outcome,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    source = Repository.init(tmp_path / "source")
    for name in FILES:
        source.write(f"there/{name}", (scene.program.folder / "full" / name).read_bytes())
    commit = source.commit()
    watched = daemons.watched("copy", source.path, project="full", path="there")
    with daemons.running(tmp_path / "daemon", repositories=[watched]) as daemon:
        run = daemon.run_of("copy", commit)
        assert {status["status"] for status in run["statuses"]} == {"created"}, run
        copied, expected = shown(daemon, "full"), shown(scene.daemon, "full")
    assert len(expected) == len(RESOURCES)
    assert copied == expected


def test_secrets_are_told_with_what_to_do(scene: Scene) -> None:
    secret = {**component(headers={"Authorization": "canary-hunter2", "X": "${env:TOKEN}"})}
    updates = scene.daemon.apply(
        resource("Destination", "siem", spec=secret), resource("Fleet", "all"), project="secret"
    )
    assert {update["status"] for update in updates} == {"created"}, updates
    outcome = scene("export", "secret", project="secret")
    assert outcome == (
        0,
        "2 files written to secret: 1 destination, 1 fleet\n",
        "secret/destinations/siem.yaml holds `(sensitive)` in place of a secret\n"
        "applied to this service, `(sensitive)` keeps the secret that is stored; in Git it is a violation: before a "
        "commit, write a reference such as ${env:NAME} in its place\n",
    )
    text = (scene.program.folder / "secret" / "destinations" / "siem.yaml").read_text()
    assert "canary-hunter2" not in text
    assert "Authorization: (sensitive)" in text
    assert "X: ${env:TOKEN}" in text
    applied = scene("apply", "-f", "secret", project="secret")
    assert (applied.code, applied.err) == (0, "2 unchanged\n")


def test_a_list_longer_than_a_page(scene: Scene) -> None:
    fleets = [resource("Fleet", f"f{number:04}") for number in range(2 * PAGE + 1)]
    scene.daemon.apply(*fleets, project="other")
    outcome = scene("export", "many", project="other")
    assert outcome == (0, f"{len(fleets)} files written to many: {len(fleets)} fleets\n", "")
    assert len(files(scene.program.folder / "many")) == len(fleets)


def test_a_folder_that_is_not_empty_is_left_alone(scene: Scene) -> None:
    scene.program.write("held/fleets/a.yaml", "old\n")
    scene.program.write("file", "")
    for place in ("held", "file"):
        refused = scene("export", place, project="small")
        assert refused == (1, "", f"error: {place} is not an empty folder; choose another\n")
    assert (scene.program.folder / "held/fleets/a.yaml").read_text() == "old\n"


def test_a_new_repository_counts_as_empty(scene: Scene) -> None:
    scene.daemon.apply(resource("Fleet", "a", description="new"), project="small")
    Repository.init(scene.program.folder / "fresh")
    assert scene("export", "fresh", project="small").code == 0


def test_nothing_is_written_when_the_service_does_not_answer(scene: Scene) -> None:
    outcome = scene.program("export", "nowhere", "--project", "no-such-project")
    assert outcome.code == 1
    assert not (scene.program.folder / "nowhere").exists()


# What a server of another mind could answer


def listing(service: Service, *pages: list[Any], kind: str = "Fleet") -> None:
    """Have resources of one kind alone."""
    for each in names.KINDS:
        for page in pages if each.name == kind else ([],):
            service.answer(f"GET /v1/resources/{each.name}", {"resources": page})


@pytest.mark.parametrize(
    "odd",
    [
        [resource("Fleet", "../../a")],
        [resource("Fleet", ".a")],
        [resource("Fleet", "")],
        [resource("Source", "a")],
        [resource("Fleet", "b"), resource("Fleet", "a")],
        [resource("Fleet", "a"), resource("Fleet", "a")],
        [resource("Fleet", f"a{number:03}") for number in range(PAGE)],  # for ever the same page
    ],
)
def test_an_answer_that_is_not_the_services_is_refused(program: Program, service: Service, odd: list[Any]) -> None:
    listing(service, odd)
    outcome = program("export", "out")
    assert outcome == (
        1,
        "",
        "error: the answer is not one of the service; is --server or SERVICE_SERVER right?\n",
    )


def test_pages_are_asked_for_one_after_the_other(program: Program, service: Service) -> None:
    fleets = [resource("Fleet", f"a{number:03}") for number in range(PAGE + 1)]
    listing(service, fleets[:PAGE], fleets[PAGE:])
    assert program("export", "out").code == 0
    assert [request.query for request in service.requests if request.path.endswith("/Fleet")] == [
        {"limit": str(PAGE)},
        {"limit": str(PAGE), "after": "a099"},
    ]


def test_what_the_service_brings_along_is_left_out(program: Program, service: Service) -> None:
    listing(service, [{**resource("Fleet", "a"), "status": {"source": {"type": "builtin"}}}])
    assert program("export", "out") == (0, "0 files written to out\n", "")
    assert not (program.folder / "out").exists()


def test_what_cannot_come_back_as_it_is_gets_a_remark(program: Program, service: Service) -> None:
    incomplete = {**resource("AgentVersion", "a"), "status": {"incomplete": ["/spec: is odd"]}}
    listing(service, [incomplete], kind="AgentVersion")
    outcome = program("export", "out")
    assert (outcome.code, outcome.err) == (
        0,
        "out/agent-versions/a.yaml is incomplete: apply it with --accept-invalid, or correct and add its parameters, "
        "or complete what it names\n",
    )


# Pure


@given(st.lists(st.from_regex(r"[aAbB.~]?[aAbB]{1,3}", fullmatch=True).filter(lambda name: not names.wrong_name(name))))
def test_no_two_resources_share_a_file_on_any_disk(found: list[str]) -> None:
    unique = sorted(set(found))
    folded: Counter[str] = Counter()
    made = [export.file_name(name, folded) for name in unique]
    assert len({name.casefold() for name in made}) == len(unique)
    assert all(os.path.basename(name) == name and name.endswith(".yaml") for name in made)  # noqa: PTH119
    for name, file in zip(unique, made, strict=True):
        assert file.removesuffix(".yaml").partition("~")[0] == name


@given(
    st.dictionaries(st.text(max_size=5), VALUES), st.dictionaries(st.sampled_from(["name", "id", "hash"]), st.text())
)
def test_a_file_says_what_a_user_owns(spec: dict[str, Any], metadata: dict[str, Any]) -> None:
    shown = {**resource("AgentVersion", "a", spec=spec), "metadata": metadata, "status": {"latest": True}}
    [read] = documents.read(export.file_contents(shown), syntax=documents.Syntax.YAML, limits=positions.FILE_LIMITS)
    owned = {key: value for key, value in metadata.items() if key not in SERVER_KEYS}
    expected = {"apiVersion": "service/v1", "kind": "AgentVersion", "metadata": owned, "spec": spec}
    assert json.dumps(read.value, sort_keys=True) == json.dumps(expected, sort_keys=True)
