"""`queue peek`: which queue is read, what is shown of it, and how much. What files hold is tested with the queue."""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from reconciler.delivery.otlp import bodies
from reconciler.delivery.queue.contract import FinalFailure, Reason
from reconciler.delivery.queue.queues import Queues
from reconciler.model.routes import Storage
from reconciler.settings import loading
from tests import hostile_text
from tests.cli.conftest import Program
from tests.hostile_text import EVERYTHING

AT = 1_795_241_520_123
MOMENT = "2026-11-21T06:12:00.123Z"
DIED = FinalFailure(Reason.GIVEN_UP, AT, 3, "The destination siem answered 422.", 422, b"no \xff")

ELSEWHERE = (
    "name the service's settings with --config or SERVICE_CONFIG, or its `stateDir` with --state-dir (queues in memory "
    "and destinations without a queue have no files)"
)


def fill(
    state: Path,
    texts: Sequence[str],
    *,
    project: str = "default",
    name: str = "siem",
    dead: int = 0,
    died: FinalFailure = DIED,
) -> None:
    """A queue of one record a batch; the first `dead` of them are dead letters."""

    async def run() -> None:
        queues = Queues(state / "queues", reserve=0, clock=lambda: AT)
        await queues.start()
        queue = await queues.open(project=project, name=name, storage=Storage(), max_batches=1000, dead_bytes=1 << 20)
        for text in texts:
            await queue.append([bodies.test_request(text, at=AT)], records=1, at=AT)
        for batch in queue.claim(most_records=max(dead, 1), most_bytes=1 << 20)[:dead]:
            payload = await queue.payload(batch)
            assert payload is not None
            await queue.bury(batch, [payload], died, records=1)
        await queue.close()
        await queues.close()

    asyncio.run(run())


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory in which a queue has two batches and a dead letter."""
    fill(tmp_path / "state", ["first", '{"n": 9223372036854775807}', "third"], dead=1)
    return tmp_path / "state"


def test_what_waits_is_a_table(alone: Program, state: Path) -> None:
    assert alone("queue", "peek", "siem", "--state-dir", str(state)) == (
        0,
        "NUMBER   STATE    RECORDS   SIZE       TAKEN                  ATTEMPTS   STATUS   REASON\n"
        f"2        queued   1         {size(state, 0)} bytes   2026-11-21T06:12:00Z   -          -        -\n"
        f"3        queued   1         {size(state, 1)} bytes   2026-11-21T06:12:00Z   -          -        -\n",
        "",
    )


def size(state: Path, place: int) -> int:
    told = json.loads(Program(state)("queue", "peek", "siem", "--state-dir", str(state), "-o", "json").out)
    return int(told["batches"][place]["bytes"])


def test_bodies_are_shown_with_their_batches(alone: Program, state: Path) -> None:
    outcome = alone("queue", "peek", "siem", "--bodies", SERVICE_STATE_DIR=str(state))
    assert (outcome.code, outcome.err) == (0, "")
    found = list(yaml.safe_load_all(outcome.out))
    assert [(batch["number"], batch["takenAt"], batch["bodies"]) for batch in found] == [
        (2, MOMENT, [{"n": 9223372036854775807}]),
        (3, MOMENT, ["third"]),
    ]


def test_json_and_yaml_have_everything(alone: Program, state: Path) -> None:
    arguments = ["queue", "peek", "siem", "--dead", "--bodies", "--state-dir", str(state)]
    (letter,) = json.loads(alone(*arguments, "-o", "json").out)["batches"]
    assert {key: value for key, value in letter.items() if key != "bytes"} == {
        **{"number": 1, "state": "dead", "records": 1, "takenAt": MOMENT, "attempts": 3},
        **{"reason": "given-up", "status": 422, "cause": DIED.cause, "diedAt": MOMENT, "answer": "no \ufffd"},
        "bodies": ["first"],
    }
    assert list(yaml.safe_load_all(alone(*arguments, "-o", "yaml").out)) == [letter]


def test_no_more_is_shown_than_asked_for(alone: Program, state: Path) -> None:
    outcome = alone("queue", "peek", "siem", "--limit", "1", "-o", "json", SERVICE_STATE_DIR=str(state))
    assert [batch["number"] for batch in json.loads(outcome.out)["batches"]] == [2]
    assert (outcome.code, outcome.err) == (0, "there are more than 1; --limit shows more\n")


def test_which_queue_is_meant_is_told(alone: Program, state: Path) -> None:
    fill(state, ["other"], project="web")
    fill(state, [], name="archive")
    assert alone("queue", "peek", "siem", SERVICE_STATE_DIR=str(state)) == (
        1,
        "",
        "error: siem is in the projects default, web; choose one with --project\n",
    )
    other = alone("queue", "peek", "siem", "--project", "web", "--bodies", SERVICE_STATE_DIR=str(state))
    assert yaml.safe_load(other.out)["bodies"] == ["other"]
    assert alone("queue", "peek", "archive", SERVICE_STATE_DIR=str(state)) == (0, "", "nothing is queued\n")
    assert alone("queue", "peek", "x", SERVICE_STATE_DIR=str(state)) == (
        1,
        "",
        f"error: there is no queue of x that can be read in {state}, but those of archive, siem; {ELSEWHERE}\n",
    )


def test_the_state_directory_is_that_of_the_settings_file(alone: Program, state: Path, tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text(f"stateDir: {state}\n")
    expected = alone("queue", "peek", "siem", "--state-dir", str(state))
    assert expected.code == 0
    assert alone("queue", "peek", "siem", "--config", str(config)) == expected
    assert alone("queue", "peek", "siem", SERVICE_CONFIG=str(config)) == expected
    other = alone("queue", "peek", "siem", "--config", str(config), SERVICE_STATE_DIR=str(tmp_path / "elsewhere"))
    assert other.code == 1
    assert f"can be read in {tmp_path / 'elsewhere'}" in other.err


def test_a_settings_file_with_mistakes_is_told_of_and_needs_not_be_read(
    alone: Program, state: Path, tmp_path: Path
) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text("stateDir: [1]\n")
    told = alone("queue", "peek", "siem", "--config", str(config))
    assert (told.code, told.out) == (1, "")
    assert f"{config}:1:" in told.err
    assert alone("queue", "peek", "siem", "--config", str(config), "--state-dir", str(state)).code == 0


@pytest.mark.parametrize("named", ["XDG_STATE_HOME", "HOME", "STATE_DIRECTORY"])
def test_the_state_directory_is_that_of_serve(alone: Program, tmp_path: Path, named: str) -> None:
    below = {"XDG_STATE_HOME": "reconciler", "HOME": ".local/state/reconciler", "STATE_DIRECTORY": ""}[named]
    state = loading.default_state_dir({"HOME": str(tmp_path), named: str(tmp_path)}, user=os.geteuid())
    if os.geteuid() != 0 or named == "STATE_DIRECTORY":
        assert Path(state) == tmp_path / below
        fill(tmp_path / below, ["mine"])
        assert alone("queue", "peek", "siem", "--bodies", **{named: str(tmp_path)}).out.endswith("- mine\n")
    told = alone("queue", "peek", "x", "--project", "none", **{named: str(tmp_path)}).err
    assert told == f"error: there is no queue of x that can be read in {state}, nor any other; {ELSEWHERE}\n"


def test_what_an_endpoint_answered_acts_on_nothing(alone: Program, tmp_path: Path) -> None:
    died = DIED._replace(answer=EVERYTHING.encode() + b"\n9: forged", status=None, attempts=1)
    fill(tmp_path / "state", ["one"], dead=1, died=died)
    outcome = alone("queue", "peek", "siem", "--dead", "--bodies", SERVICE_STATE_DIR=str(tmp_path / "state"))
    assert hostile_text.unseen(outcome.out) == []
    assert yaml.safe_load(outcome.out)["answer"] == EVERYTHING + "\n9: forged"


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_what_strangers_sent_acts_on_nothing(alone: Program, tmp_path: Path, form: str) -> None:
    fill(tmp_path / "state", [EVERYTHING, f'"{EVERYTHING}"'])
    outcome = alone("queue", "peek", "siem", "--bodies", "-o", form, SERVICE_STATE_DIR=str(tmp_path / "state"))
    assert (outcome.code, outcome.err) == (0, "")
    assert hostile_text.unseen(outcome.out) == []
    assert "evil" in outcome.out


def test_files_that_are_damaged_are_told(alone: Program, state: Path) -> None:
    (segment,) = (state / "queues").glob("*/*/*.seg")
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    outcome = alone("queue", "peek", "siem", SERVICE_STATE_DIR=str(state))
    assert [line.split()[:2] for line in outcome.out.splitlines()[1:]] == [["2", "queued"], ["3", "damaged"]]
    outcome = alone("queue", "peek", "siem", "--bodies", SERVICE_STATE_DIR=str(state))
    assert [batch["bodies"] for batch in yaml.safe_load_all(outcome.out)] == [[{"n": 9223372036854775807}], None]
