"""The answer of a request is its effect, whether it is only asked for, sent twice, or sent in another order."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from tests.scenarios.properties import documents
from tests.scenarios.properties.documents import Document
from tests.scenarios.properties.machines import Planning
from tests.scenarios.properties.profiles import profiles
from tests.worlds import Answered, Options, World

STORED = {"created", "configured", "deleted"}
ONLY_DRY = ("fields", "fieldsLeftOut")  # of an update: the real call stores the version that the history compares
SETTLED = {"created": "unchanged", "configured": "unchanged", "deleted": "not-found"}


class Twice(Planning):
    """A plan is empty exactly when it says so, and carrying it out leaves nothing to do."""

    def applied(self, sent: Sequence[Document], options: Options) -> None:
        self._once_and_again(lambda: self.world.apply(sent, options))

    def deleted(self, keys: Sequence[Document], options: Options) -> None:
        self._once_and_again(lambda: self.world.delete(keys, options))

    def _once_and_again(self, send: Callable[[], Answered]) -> None:
        first = self._sent(send)
        again = self._sent(send)
        assert not again.planned.changed
        assert again.planned.status == first.planned.status
        assert again.statuses == [SETTLED.get(status, status) for status in first.statuses]

    def _sent(self, send: Callable[[], Answered]) -> Answered:
        before, revision = self.world.stored(), self.world.revision
        answered = send()
        stores = not STORED.isdisjoint(answered.statuses)
        assert answered.planned.changed == stores == (self.world.revision != revision)
        assert stores or (answered.parts, self.world.stored()) == ((), before)
        return answered


class Dry(Planning):
    """A dry run answers what the real call answers then, and stores nothing."""

    def applied(self, sent: Sequence[Document], options: Options) -> None:
        dry = self._dry(lambda: self.world.apply(sent, replace(options, dry_run=True)))
        real = self.world.apply(sent, options)
        if not options.atomic or "parameters" not in json.dumps(sent):  # else a secret may be what is refused
            assert _seen(dry) == _seen(real)

    def deleted(self, keys: Sequence[Document], options: Options) -> None:
        dry = self._dry(lambda: self.world.delete(keys, replace(options, dry_run=True)))
        real = self.world.delete(keys, options)
        assert (dry.planned.status, dry.body) == (real.planned.status, real.body)

    def _dry(self, send: Callable[[], Answered]) -> Answered:
        before, revision = self.world.stored(), self.world.revision
        answered = send()
        assert (self.world.stored(), self.world.revision) == (before, revision)
        assert (answered.parts, answered.planned.changed) == ((), False)
        self.world.turn_back()
        return answered


def _seen(answered: Answered) -> Any:
    """An answer, as far as a dry run may tell it: a secret that somebody guessed always counts as changed."""
    updates = answered.body.get("updates")
    if updates is None:
        return answered.planned.status, answered.body
    return answered.planned.status, [_seen_of(update) for update in updates]


def _seen_of(update: dict[str, Any]) -> dict[str, Any]:
    if documents.MASK not in json.dumps(update["resource"]):
        return {name: value for name, value in update.items() if name not in ONLY_DRY}
    status = "unchanged or not" if update["status"] in ("unchanged", "configured", "forbidden") else update["status"]
    key = update["resource"].get("kind"), update["resource"].get("metadata", {}).get("name")
    return {"status": status, "reason": update.get("reason"), "key": key}


class Permuted(Planning):
    """The order of a request changes neither a status nor what is stored."""

    order = random.Random(0)  # noqa: S311 - no secret

    @rule(seed=st.integers(0, 5))
    def shuffle(self, seed: int) -> None:
        """The next requests come in another order, too."""
        self.order = random.Random(seed)  # noqa: S311 - no secret

    def applied(self, sent: Sequence[Document], options: Options) -> None:
        order = self._order(len(sent))
        with self.world.fork() as other:
            permuted = other.apply([sent[at] for at in order], options)
            straight = self.world.apply(sent, options)
            self._same(straight, permuted, order, other)

    def deleted(self, keys: Sequence[Document], options: Options) -> None:
        order = self._order(len(keys))
        with self.world.fork() as other:
            permuted = other.delete([keys[at] for at in order], options)
            straight = self.world.delete(keys, options)
            self._same(straight, permuted, order, other)

    def _order(self, length: int) -> list[int]:
        order = list(range(length))
        self.order.shuffle(order)
        return order

    def _same(self, straight: Answered, permuted: Answered, order: Sequence[int], other: World) -> None:
        assert straight.planned.status == permuted.planned.status
        assert straight.planned.touched == permuted.planned.touched
        if straight.statuses:
            assert [straight.statuses[at] for at in order] == permuted.statuses
        assert _essence(self.world) == _essence(other)


def _essence(world: World) -> list[dict[str, Any]]:
    """Stored content, but for ids and numbers of versions, which are made from the place in the request, and hashes,
    which go by the ids.
    """
    found = []
    for row in world.stored():
        body = json.loads(row["body"])
        del body["metadata"]["id"], body["metadata"]["hash"]
        found.append({**row, "body": body, "resource_id": None, "version_id": None})
    return found


class Exported(Planning):
    """An export can be sent back, and changes nothing."""

    def settled(self) -> None:
        shown = [json.loads(row["body"]) | {"status": json.loads(row["status"])} for row in self.world.stored()]
        with self.world.fork() as other:
            answered = other.apply(shown, Options(accept_invalid=True))
        assert dict.fromkeys(answered.statuses) == ({"unchanged": None} if shown else {}), answered.body


@profiles
def test_a_plan_is_empty_exactly_when_carrying_it_out_changes_nothing(profile: settings) -> None:
    run_state_machine_as_test(Twice, settings=profile)


@profiles
def test_a_dry_run_answers_what_the_real_call_answers_and_stores_nothing(profile: settings) -> None:
    run_state_machine_as_test(Dry, settings=profile)


@profiles
def test_the_order_of_a_request_never_matters(profile: settings) -> None:
    run_state_machine_as_test(Permuted, settings=profile)


@profiles
def test_what_is_shown_can_be_sent_back_and_changes_nothing(profile: settings) -> None:
    run_state_machine_as_test(Exported, settings=profile)
