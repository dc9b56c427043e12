"""Promises of a store about the reads of a plan: one revision each, whole, and as it was stored."""

import json
from dataclasses import replace

import pytest

from reconciler.model.names import Key
from reconciler.model.outcomes import StoredState
from reconciler.store.contract import BATCH, Store, StoreFault
from reconciler.store.records import Changes, Record, StoredDocument
from reconciler.store.repository_records import FileRow
from tests.store import rows
from tests.store.engines import Engine


class ViewPromises:
    """Reading for a plan."""

    pytestmark = pytest.mark.anyio

    async def test_a_snapshot_is_one_revision_until_it_ends(self, engine: Engine, store: Store) -> None:
        await store.commit([rows.stored("a")], record=Record())
        view = engine.view()
        keys = [rows.key("a"), rows.key("b")]
        with view.snapshot() as revision:
            before = view.stored(rows.PROJECT, keys)
            await store.commit([rows.stored("a", number=2), rows.stored("b")], record=Record())
            assert (revision, view.stored(rows.PROJECT, keys)) == (1, before)
            assert view.last_versions(rows.PROJECT, keys) == {keys[0]: 1}
        with view.snapshot() as revision:
            assert (revision, view.last_versions(rows.PROJECT, keys)) == (2, {keys[0]: 2, keys[1]: 1})
        view.close()

    async def test_an_exception_ends_the_snapshot_and_goes_on(self, engine: Engine, store: Store) -> None:
        view = engine.view()
        with pytest.raises(BrokenPipeError), view.snapshot():
            raise BrokenPipeError("the main process has gone")
        await store.commit([rows.stored("a")], record=Record())
        with view.snapshot() as revision:
            assert revision == 1
        view.close()

    async def test_stored_resources_are_found_by_key(self, engine: Engine, store: Store) -> None:
        protected = rows.stored("p")
        head = protected.heads[0]._replace(protected=1, incomplete=1, drifted=1)
        parts = [owned("a", line=7), rows.stored("b"), replace(protected, heads=[head])]
        await store.commit(parts, record=Record())
        view = engine.view()
        keys = [rows.key(name) for name in ("a", "b", "p", "missing", "a'\"[]")] + [Key("Source", "a")]
        with view.snapshot():
            found = view.stored(rows.PROJECT, iter(keys))
            documents = view.documents(rows.PROJECT, keys)
            bodies = {key.name: json.loads(body) for key, body in view.bodies(rows.PROJECT, keys).items()}
            elsewhere = view.stored("other", keys)
            taken = view.taken_ids(rows.PROJECT, ["id-b", "id-x"])
        view.close()
        a, b, p = keys[:3]
        assert found == {
            a: StoredState(a, rows.digest("a", 1), 1, owner="telemetry", path="a.yaml", line=7),
            b: StoredState(b, rows.digest("b", 1), 1, owner=None),
            p: StoredState(p, rows.digest("p", 1), 1, owner=None, protected=True, incomplete=True, drifted=True),
        }
        told = rows.origin()
        source = (told.head, told.tail)
        assert {key: one[-3:] for key, one in documents.items()} == {
            key: (f"id-{key.name}", *source) for key in (a, b, p)
        }
        assert (bodies, elsewhere, taken) == ({name: rows.shown(name, 1) for name in "abp"}, {}, {"id-b": b})

    async def test_stored_documents_come_with_their_secrets_and_no_status(self, engine: Engine, store: Store) -> None:
        await store.create_project("other", at=rows.AT)
        secret = rows.version("b")._replace(secrets=b'{"/spec/padding":"hush"}')
        head = rows.head("b", owner="telemetry")._replace(incomplete=1, status=b'{"incomplete":["x"]}')
        other = rows.stored("a", project="other")
        holding = Changes(origins=[rows.origin()], versions=[secret], heads=[head])
        await store.commit([rows.stored("a"), other, holding], record=Record())
        await store.commit([rows.stored("a", number=2)], record=Record())
        view = engine.view()
        a, b, missing = (rows.key(name) for name in ("a", "b", "missing"))
        with view.snapshot():
            assert view.documents(rows.PROJECT, [a, b, missing]) == {
                a: document("a", rows.body("a", 2), number=2),
                b: document("b", rows.body("b", 1))._replace(
                    secrets=secret.secrets, owner="telemetry", incomplete=1, status=head.status
                ),
            }
            assert view.documents("other", [a, b]) == {a: document("a", rows.body("a", 1))}
        view.close()

    async def test_more_keys_than_one_statement_takes_are_all_found(self, engine: Engine, store: Store) -> None:
        names = [f"{number:05}" for number in range(2 * BATCH + 1)]
        await store.commit([rows.stored(*names)], record=Record())
        view = engine.view()
        with view.snapshot():
            assert set(view.stored(rows.PROJECT, {rows.key(name) for name in names})) == {
                rows.key(name) for name in names
            }
            assert view.stored(rows.PROJECT, []) == {}
            assert set(view.documents(rows.PROJECT, map(rows.key, names))) == set(map(rows.key, names))
        view.close()

    async def test_the_newest_version_is_known_after_a_deletion(self, engine: Engine, store: Store) -> None:
        for number in (1, 2, 3):
            await store.commit([rows.stored("a", number=number)], record=Record())
        await store.commit([rows.removed("a")], record=Record())
        view = engine.view()
        with view.snapshot():
            assert view.stored(rows.PROJECT, [rows.key("a")]) == {}
            assert view.last_versions(rows.PROJECT, [rows.key("a"), rows.key("b")]) == {rows.key("a"): 3}
        view.close()

    async def test_what_a_repository_owns_and_no_longer_wants_is_found(self, engine: Engine, store: Store) -> None:
        names = ["b", "a", "c"]
        parts = [*(owned(name, path=f"{name}.yaml") for name in names), owned("d", owner="other"), rows.stored("e")]
        await store.commit(parts, record=Record())
        forgotten = Changes(forgotten_files=[("telemetry", "a.yaml"), ("telemetry", "c.yaml")])
        invalid = rows.wanted("x.yaml", "c")._replace(digest=None)  # contained, although it is not valid
        await store.commit([forgotten, Changes(wanted=[invalid])], record=Record())
        view = engine.view()
        with view.snapshot():
            assert [stored.key.name for stored in view.owned("telemetry", rows.PROJECT)] == ["a", "b", "c"]
            assert [stored.key.name for stored in view.owned("telemetry", rows.PROJECT, unwanted=True)] == ["a"]
            assert (view.owned("telemetry", "other"), view.owned_count("telemetry", "other")) == ([], 0)
            assert view.owned_count("telemetry", rows.PROJECT) == 3
        view.close()

    async def test_the_files_of_the_applied_head_are_remembered(self, engine: Engine, store: Store) -> None:
        unnamed = rows.wanted("b.yaml", None, position=2)
        bad = [rows.wanted("z.yaml", None, unconverged="refused"), rows.wanted("c.yaml", "c", unconverged="waiting")]
        vacant = FileRow("telemetry", "empty.yaml", "b" * 40, vacant="is empty")
        linked = FileRow("telemetry", "link", "b" * 40, vacant="is a link", given='[["Fleet","x"],["Fleet","y"]]')
        part = Changes(files=[rows.file("b.yaml"), vacant, linked], wanted=[unnamed, *bad])
        parts = [owned("a"), owned("b", path="b.yaml"), owned("a", owner="other"), part]
        parts[2] = Changes(wanted=parts[2].wanted)
        await store.commit(parts, record=Record(repository=rows.repository()))
        view = engine.view()
        with view.snapshot():
            assert view.unconverged("telemetry") == ["c.yaml", "z.yaml"]
            assert view.wanted_count("telemetry") == 5
            assert view.wanted_in("telemetry", ["b.yaml", "x.yaml"]) == [
                rows.wanted("b.yaml", "b", position=1),
                unnamed,
            ]
            assert view.standing_at("telemetry", rows.PROJECT, ["a.yaml", "c.yaml"]) == [("a.yaml", rows.key("a"))]
            found = view.wanted_of("telemetry", [rows.key("b"), rows.key("x")])
            assert found == [rows.wanted("b.yaml", "b", position=1)]
            assert view.vacant_files("telemetry") == [("empty.yaml", "is empty"), ("link", "is a link")]
            assert view.given("telemetry") == [("link", Key("Fleet", "x")), ("link", Key("Fleet", "y"))]
            assert view.given("other") == []
            assert view.wanted_at("telemetry", ["b.yaml", "c.yaml", "z.yaml"]) == [
                ("b.yaml", rows.key("b")),
                ("c.yaml", rows.key("c")),
            ]
            files, wanted = view.index("telemetry")
            assert [file.path for file in files] == ["b.yaml", "empty.yaml", "link"]
            assert [row.path for row in wanted] == ["a.yaml", "b.yaml", "b.yaml", "c.yaml", "z.yaml"]
            assert (view.repository("telemetry"), view.repository("other")) == (rows.repository(), None)
        view.close()

    async def test_a_view_that_is_closed_is_a_fault(self, engine: Engine, store: Store) -> None:
        assert await store.revision() == 0
        view = engine.view()
        view.close()
        with pytest.raises(StoreFault, match=r"^The store could not be read \("), view.snapshot():
            pytest.fail("there is nothing to read from")

    async def test_of_a_project_without_any_version_nothing_is_there(self, engine: Engine, store: Store) -> None:
        await store.create_project("other", at="2026-11-22T00:00:00Z")
        names = [f"n{number:03}" for number in range(2 * BATCH)]
        keys = [rows.key(name) for name in names]
        view = engine.view()
        for project, there in (("other", []), (rows.PROJECT, keys[:1])):
            await store.commit([rows.stored(names[0])] if there else [], record=Record())
            with view.snapshot():
                assert list(view.stored(project, keys)) == there
                assert list(view.documents(project, keys)) == there
                assert list(view.last_versions(project, keys)) == there
                assert list(view.referrers("other", keys)) == []
        view.close()


def document(name: str, body: bytes, *, number: int = 1) -> StoredDocument:
    told = rows.origin(number)
    return StoredDocument(body, None, None, 0, rows.STATUS, f"id-{name}", told.head, told.tail)


def owned(name: str, *, path: str = "a.yaml", line: int = 1, owner: str = "telemetry") -> Changes:
    return Changes(
        origins=[rows.origin()],
        versions=[rows.version(name)],
        heads=[rows.head(name, owner=owner, path=path, line=line)],
        wanted=[rows.wanted(path, name, position=line, repository=owner)],
    )
