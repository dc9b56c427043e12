"""Promises of a store about reads: one revision, one order, and what is remembered of runs and repositories."""

import json
from dataclasses import replace

import pytest

from reconciler.model.names import Key
from reconciler.store.contract import Store
from reconciler.store.records import AuditRow, ChangedVersions, Changes, Record
from tests.store import looking, rows
from tests.store.engines import Engine

# In byte order of UTF-8: UTF-16 would put the last two the other way round, and a language's order the letters.
NAMES = [
    "-",
    ".",
    "0",
    "00",
    "9",
    "A",
    "Aa",
    "B",
    "_",
    "a",
    "a-",
    "a.",
    "a0",
    "aA",
    "aa",
    "b",
    "é",
    "\uffee",
    "\U0001f600",
]

MANY = 500  # more than any page


class ReadPromises:
    """Reading."""

    pytestmark = pytest.mark.anyio

    async def test_a_resource_is_shown_with_its_status(self, store: Store) -> None:
        await store.commit([rows.stored("a")], record=Record())
        shown = await store.get(rows.PROJECT, rows.key("a"))
        assert json.loads(shown or b"") == rows.shown("a", 1)

    @pytest.mark.parametrize(
        ("project", "key"),
        [
            (rows.PROJECT, rows.key("b")),
            (rows.PROJECT, rows.key("A")),
            (rows.PROJECT, Key("Source", "a")),
            ("other", rows.key("a")),
        ],
    )
    async def test_what_is_not_stored_is_none(self, store: Store, project: str, key: Key) -> None:
        await store.commit([rows.stored("a")], record=Record())
        assert (await store.get(project, key), await looking.history(store, key, project=project)) == (None, [])

    async def test_lists_are_in_byte_order(self, store: Store) -> None:
        await store.commit([rows.stored(*reversed(NAMES))], record=Record())
        assert await looking.names(store) == sorted(NAMES, key=str.encode) == NAMES

    @pytest.mark.parametrize(
        ("after", "limit"), [("", 4), ("A", 1), ("A", 100), ("Ab", 3), ("\U0001f600", 5), ("a", 0)]
    )
    async def test_lists_begin_after_a_name_and_end_at_a_limit(self, store: Store, after: str, limit: int) -> None:
        await store.commit([rows.stored(*NAMES)], record=Record())
        expected = [name for name in NAMES if name.encode() > after.encode()][:limit]
        assert await looking.names(store, after=after, limit=limit) == expected

    async def test_lists_hold_one_kind_of_one_project(self, store: Store) -> None:
        await store.create_project("other", at=rows.AT)
        strange = rows.stored("c")
        strange = Changes(
            origins=strange.origins,
            versions=[strange.versions[0]._replace(kind="Source")],
            heads=[strange.heads[0]._replace(kind="Source")],
        )
        await store.commit([rows.stored("a"), rows.stored("b", project="other"), strange], record=Record())
        assert (await looking.names(store), await looking.names(store, project="other")) == (["a"], ["b"])

    async def test_a_list_is_one_revision_although_others_write(self, store: Store) -> None:
        names = [f"{number:04}" for number in range(0, 2_000, 2)]
        await store.commit([rows.stored(*names)], record=Record())
        pages = store.list_pages(rows.PROJECT, rows.KIND, after="", limit=10_000)
        found = [json.loads(shown) for shown in await anext(pages)]
        assert len(found) < len(names)
        revision = 1
        async for page in pages:
            # Before each page: one that is new, one that changes, one that goes, all still to come.
            part = rows.stored(f"1{revision:03}x")
            changed = rows.stored("1998", number=revision + 1)
            gone = rows.removed(f"{1_900 + 2 * revision:04}")
            revision = await store.commit([part, changed, gone], record=Record())
            found += [json.loads(shown) for shown in page]
        assert revision > 2
        assert found == [rows.shown(name, 1) for name in names]
        assert await looking.names(store) != names

    async def test_a_page_is_small_however_large_its_resources_are(self, store: Store) -> None:
        large, padding = 200_000, "x" * 200_000  # characters
        names = [f"{number:04}" for number in range(40)]
        await store.commit([rows.stored(*names, padding=padding)], record=Record())
        versions = [rows.version("a", number, padding=padding) for number in range(1, 41)]
        origins = [rows.origin(number) for number in range(1, 41)]
        await store.commit([Changes(origins=origins, versions=versions)], record=Record())
        listed = [page async for page in store.list_pages(rows.PROJECT, rows.KIND, after="", limit=10_000)]
        history = [page async for page in store.history_pages(rows.PROJECT, rows.key("a"))]
        assert [json.loads(shown)["metadata"]["name"] for page in listed for shown in page] == names
        assert [json.loads(shown)["metadata"]["version"] for page in history for shown in page] == [*range(40, 0, -1)]
        assert max(sum(map(len, page)) for page in (*listed, *history)) < 5 * large

    async def test_a_list_that_is_left_early_holds_nothing_up(self, store: Store) -> None:
        await store.commit([rows.stored(*(f"{number:04}" for number in range(500)))], record=Record())
        pages = store.list_pages(rows.PROJECT, rows.KIND, after="", limit=10_000)
        await anext(pages)
        await pages.aclose()
        assert await store.commit([rows.removed("0001")], record=Record()) == 2

    async def test_history_is_newest_first_and_says_which_one_is_latest(self, store: Store) -> None:
        for number in (1, 2, 3):
            await store.commit([rows.stored("a", number=number)], record=Record())
        history = await looking.history(store, rows.key("a"))
        assert history == [rows.shown("a", number, latest=number == 3) for number in (3, 2, 1)]

    async def test_history_outlives_a_deletion_and_goes_on_after_it(self, store: Store) -> None:
        await store.commit([rows.stored("a")], record=Record())
        await store.commit([rows.removed("a")], record=Record())
        history = await looking.history(store, rows.key("a"))
        assert (await store.get(rows.PROJECT, rows.key("a")), history) == (None, [rows.shown("a", 1, latest=False)])
        again = rows.stored("a", number=2)
        again = replace(again, heads=[again.heads[0]._replace(resource_id="another")])
        await store.commit([again], record=Record())
        history = await looking.history(store, rows.key("a"))
        assert history == [rows.shown("a", 2), rows.shown("a", 1, latest=False)]

    async def test_a_head_may_change_without_a_version(self, store: Store) -> None:
        await store.commit([rows.stored("a")], record=Record())
        moved = rows.head("a", owner="telemetry", path="b.yaml", line=3)._replace(status=b'{"latest":true,"moved":1}')
        await store.commit([Changes(heads=[moved])], record=Record())
        shown = await looking.history(store, rows.key("a"))
        assert shown == [rows.shown("a", 1) | {"status": {"latest": True, "moved": 1, "source": rows.source(1)}}]

    async def test_a_history_is_one_revision_although_others_write(self, store: Store) -> None:
        versions = [rows.version("a", number) for number in range(1, MANY)]
        origins = [rows.origin(number) for number in range(1, MANY)]
        parts = [Changes(origins=origins, versions=versions), rows.stored("a", number=MANY)]
        await store.commit(parts, record=Record())
        pages = store.history_pages(rows.PROJECT, rows.key("a"))
        found = await anext(pages)
        assert len(found) < MANY
        await store.commit([rows.stored("a", number=MANY + 1)], record=Record())
        found += [shown async for page in pages for shown in page]
        assert [json.loads(shown) for shown in found] == [
            rows.shown("a", number, latest=number == MANY) for number in range(MANY, 0, -1)
        ]

    async def test_runs_are_newest_first(self, store: Store) -> None:
        for identifier, repository in [("R2", "b"), ("R4", "a"), ("R1", "a"), ("R3", "b")]:
            await store.commit((), record=Record(run=rows.run(identifier, repository=repository)))
        ids = [run["id"] for run in await looking.runs(store, limit=3)]
        of_a = [run["id"] for run in await looking.runs(store, repository="a", limit=3)]
        assert (ids, of_a) == (["R4", "R3", "R2"], ["R4", "R1"])
        assert [(await store.remembered(name, held=0)).last_run for name in ("a", "b", "c")] == ["R4", "R3", None]

    async def test_a_run_holds_its_statuses_in_order(self, store: Store) -> None:
        statuses = [rows.run_status("R1", 11), rows.run_status("R1", 2, name="b", reason="a.yaml:2:1: /spec: bad")]
        await store.commit([Changes(statuses=statuses)], record=Record(run=rows.run("R1")))
        expected = {
            "id": "R1",
            "repository": "telemetry",
            "project": rows.PROJECT,
            "trigger": "watch",
            "actor": "git:telemetry",
            "phase": "finished",
            "commit": "c" * 40,
            "outcome": "succeeded",
            "message": None,
            "counts": {"created": 2},
            "rewound": False,
            "startedAt": rows.AT,
            "finishedAt": rows.AT,
            "durationMs": 12,
        }
        told = [
            {
                "kind": rows.KIND,
                "name": "b",
                "status": "invalid",
                "reason": "a.yaml:2:1: /spec: bad",
                "path": "a.yaml",
                "line": 2,
            },
            {"kind": rows.KIND, "name": "a", "status": "created", "path": "a.yaml", "line": 11},
        ]
        assert await looking.run(store, "R1") == [expected, *told]
        assert await looking.runs(store) == [expected]
        assert await looking.run(store, "R2") == []

    async def test_a_run_holds_what_it_changed_in_delivery(self, store: Store) -> None:
        told = b'{"counts":{"stopped":1},"changes":[]}'
        await store.commit((), record=Record(run=rows.run("R1")._replace(flows=told)))
        assert [run["flows"] for run in await looking.runs(store)] == [json.loads(told)]

    async def test_a_run_of_many_statuses_comes_in_pages_and_holds_nothing_up_when_it_is_left(
        self, store: Store
    ) -> None:
        statuses = [rows.run_status("R1", ordinal) for ordinal in range(MANY)]
        await store.commit([Changes(statuses=statuses)], record=Record(run=rows.run("R1")))
        sizes = [len(page) async for page in store.run_pages("R1")]
        _, *found = await looking.run(store, "R1")
        assert (sizes[0], sum(sizes), len(sizes) > 2) == (1, 1 + MANY, True)
        assert [status["line"] for status in found] == list(range(MANY))
        pages = store.run_pages("R1")
        assert len(await anext(pages)) == 1
        assert len(await anext(pages)) < MANY
        await pages.aclose()
        assert await store.commit([rows.stored("a")], record=Record()) == 1

    async def test_runs_come_in_pages_of_one_state_of_the_store(self, store: Store) -> None:
        for number in range(150):
            await store.commit((), record=Record(run=rows.run(f"R{number:03}")))
        pages = store.runs_pages(repository=None, projects=None, limit=120)
        found = await anext(pages)
        assert len(found) < 120
        # It began before those that were told already, and ended after them: in a later page it would be a surprise.
        await store.commit((), record=Record(run=rows.run("R045x")))
        found += [run async for page in pages for run in page]
        assert [json.loads(run)["id"] for run in found] == [f"R{number:03}" for number in range(149, 29, -1)]

    async def test_projects_and_repositories_are_in_byte_order_and_made_once(self, store: Store) -> None:
        for name in ("z", "a-b", "a0", "a", "a-b"):
            await store.create_project(name, at=rows.AT)
            await store.commit((), record=Record(repository=rows.repository(name)))
        assert [*(await store.directory()).projects] == ["a", "a-b", "a0", "default", "z"]
        assert await store.repositories() == [rows.repository(name) for name in ("a", "a-b", "a0", "z")]
        assert (await store.remembered("a", held=0)).row == rows.repository("a")
        assert (await store.remembered("b", held=0)).row is None

    async def test_every_store_has_a_key_of_its_own(self, store: Store) -> None:
        key = await store.hmac_key()
        assert (len(key), await store.hmac_key() == key, len(set(key)) > 8) == (32, True, True)

    async def test_a_repository_that_is_released_leaves_its_resources_to_the_api(
        self, engine: Engine, store: Store
    ) -> None:
        def owned(name: str, owner: str) -> Changes:
            return Changes(
                origins=[rows.origin()],
                versions=[rows.version(name)],
                heads=[rows.head(name, owner=owner, path="a.yaml", line=1)],
                files=[rows.file("a.yaml", repository=owner)],
                wanted=[rows.wanted("a.yaml", name, repository=owner, unconverged="refused")],
            )

        for number, (name, owner) in enumerate([("a", "telemetry"), ("b", "other")]):
            record = Record(repository=rows.repository(owner), run=rows.run(f"R{number}", repository=owner))
            await store.commit([owned(name, owner)], record=record)
        assert await store.commit((), record=Record(release_repository="telemetry")) == 3
        assert await looking.listed(store) == [rows.shown("a", 1), rows.shown("b", 1)]
        assert [one.name for one in await store.repositories()] == ["other"]
        assert (await store.remembered("telemetry", held=0)).last_run == "R0"
        view = engine.view()
        with view.snapshot():
            found = view.stored(rows.PROJECT, [rows.key("a"), rows.key("b")])
            places = {key.name: (one.owner, one.path, one.line) for key, one in found.items()}
            left = [(view.unconverged(name), view.wanted_count(name)) for name in ("telemetry", "other")]
        view.close()
        assert places == {"a": (None, None, None), "b": ("other", "a.yaml", 1)}
        assert left == [([], 0), (["a.yaml"], 1)]

    async def test_files_are_forgotten_before_those_of_the_same_commit_are_written(
        self, engine: Engine, store: Store
    ) -> None:
        def files(repository: str, *paths: str) -> Changes:
            return Changes(
                files=[rows.file(path, repository=repository, vacant="is empty") for path in paths],
                wanted=[rows.wanted(path, path, repository=repository) for path in paths],
            )

        await store.commit([files("telemetry", "a", "b", "c"), files("other", "a")], record=Record(repository=None))
        again = files("telemetry", "b")
        again = Changes(
            forgotten_files=[("telemetry", "b"), ("telemetry", "a")], files=again.files, wanted=again.wanted
        )
        await store.commit([again], record=Record())
        view = engine.view()
        with view.snapshot():
            assert [path for path, _ in view.vacant_files("telemetry")] == ["b", "c"]
            assert [row.path for row in view.wanted_in("telemetry", ["a", "b", "c"])] == ["b", "c"]
        await store.commit([files("telemetry", "d")], record=Record(forget_files_of="telemetry"))
        with view.snapshot():
            assert [path for path, _ in view.vacant_files("telemetry")] == ["d"]
            assert (view.wanted_count("telemetry"), view.wanted_count("other")) == (1, 1)
        view.close()

    async def test_a_version_is_found_by_its_number_and_shown_as_in_the_history(self, store: Store) -> None:
        for number in (1, 2):
            await store.commit([rows.stored("a", number=number)], record=Record())
        shown = [await store.get(rows.PROJECT, rows.key("a"), version=number) for number in (1, 2, 3)]
        assert [None if one is None else json.loads(one) for one in shown] == [
            rows.shown("a", 1, latest=False),
            rows.shown("a", 2),
            None,
        ]

    async def test_a_run_knows_the_versions_before_and_after_in_the_order_of_its_statuses(self, store: Store) -> None:
        made = (rows.AT, rows.PROJECT, "git:telemetry")
        changed = [
            AuditRow(*made, "configured", rows.KIND, "a", 1, 2, "R1"),
            AuditRow(*made, "deleted", rows.KIND, "b", 3, None, "R1"),
            AuditRow(*made, "configured", rows.KIND, "c", 4, 4, "R1"),  # another owner alone
        ]
        names = ("b", "a", "c", "unknown")
        statuses = [rows.run_status("R1", number, name=name) for number, name in enumerate(names)]
        parts = Changes(audit=changed, statuses=statuses)
        await store.commit([parts], record=Record(run=rows.run("R1")))
        await store.commit([Changes(statuses=[rows.run_status("R2", 0, name="a")])], record=Record(run=rows.run("R2")))
        both = [
            ChangedVersions(rows.KIND, "b", "created", "a.yaml", 0, 3, None),
            ChangedVersions(rows.KIND, "a", "created", "a.yaml", 1, 1, 2),
        ]
        assert await store.run_changes("R1", limit=10) == both
        assert await store.run_changes("R1", limit=1) == both[:1]
        assert await store.run_changes("R2", limit=10) == []
