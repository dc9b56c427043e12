"""The directory after any changes: whole, and equal to the store's."""

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.auth import changes
from reconciler.model import directory as model_directory
from reconciler.model.directory import Amendment, Directory
from reconciler.model.errors import Refused
from reconciler.model.principals import Role
from reconciler.store.sqlite import SqliteStore
from tests.auth import directories
from tests.store.contract_access import amend, whole

Step: TypeAlias = Callable[[Directory, int], Amendment]
"""A change; the number is another one for each, so that nobody gets an id that somebody had."""

NAMES = st.sampled_from(["root", "ada", "una", "vic", "nil", "new"])
PROJECTS = st.sampled_from(["default", "payments", "search"])
KEYS = st.integers(1, 4)


def create_user(name: str) -> Step:
    return lambda directory, number: changes.create_user(
        directory, replace(directories.user(name), id=f"id-{name}-{number}")
    )


def change_user(name: str, *, is_admin: bool) -> Step:
    return lambda directory, _: changes.change_user(
        directory, replace(changes.user(directory, name), organization_admin=is_admin)
    )


def set_member(project: str, name: str, role: Role) -> Step:
    def decide(directory: Directory, _: int) -> Amendment:
        if project not in directory.projects:
            raise changes.Missing("There is no such project.")  # as every request is judged before
        return changes.set_member(directory, project=project, name=name, role=role)

    return decide


def revoke_key(number: int) -> Step:
    def decide(directory: Directory, _: int) -> Amendment:
        found = directory.keys.get(directories.key(directories.text(number)).prefix)
        if found is None:
            raise changes.Missing("There is no such key.")
        return changes.revoke_key(
            directory, replace(found, last_used_at=directories.LATER)
        )  # seen before or after a use

    return decide


def create_key(number: int, project: str | None) -> Step:
    return lambda directory, step: changes.create_key(
        directory,
        directories.key(
            directories.text(number),
            identifier=f"K{step}",
            project=project if project in directory.projects else None,
        ),
    )


def create_own_key(number: int, name: str) -> Step:
    def decide(directory: Directory, step: int) -> Amendment:
        key = directories.key(directories.text(number), identifier=f"K{step}", role=Role.VIEWER)
        return changes.create_key(directory, replace(key, owner=changes.user(directory, name).id))

    return decide


STEPS = st.one_of(
    st.builds(lambda name: lambda d, _: changes.create_project(d, name, at=directories.AT), PROJECTS),
    st.builds(create_user, NAMES),
    st.builds(lambda name, is_admin: change_user(name, is_admin=is_admin), NAMES, st.booleans()),
    st.builds(lambda name: lambda d, _: changes.remove_user(d, name), NAMES),
    st.builds(set_member, PROJECTS, NAMES, st.sampled_from(Role)),
    st.builds(lambda project, name: lambda d, _: changes.remove_member(d, project=project, name=name), PROJECTS, NAMES),
    st.builds(create_key, KEYS, PROJECTS),
    st.builds(create_own_key, KEYS, NAMES),
    st.builds(revoke_key, KEYS),
)


def made(before: Directory, steps: list[Step]) -> list[tuple[Amendment, Directory]]:
    """Each change that is not refused, and the directory after it."""
    done: list[tuple[Amendment, Directory]] = []
    directory = before
    for number, step in enumerate(steps):
        try:
            amendment = step(directory, number)
        except Refused:
            continue
        directory = model_directory.amended(directory, amendment)
        done.append((amendment, directory))
    return done


@given(st.lists(STEPS, max_size=30))
def test_whatever_changes_the_directory_is_whole(steps: list[Step]) -> None:
    for _, directory in made(directories.directory(), steps):
        ids = [user.id for user in directory.users.values()]
        assert len(set(ids)) == len(ids)
        assert all(name == user.name for name, user in directory.users.items())
        assert all(name == project.name for name, project in directory.projects.items())
        assert directory.members.keys() <= directory.projects.keys()
        assert all(roles and roles.keys() <= set(ids) for roles in directory.members.values())
        assert all(prefix == key.prefix for prefix, key in directory.keys.items())
        assert len({key.id for key in directory.keys.values()}) == len(directory.keys)
        assert {key.owner for key in directory.keys.values()} <= {*ids, None}
        assert {key.project for key in directory.keys.values()} <= {*directory.projects, None}
        assert any(user.organization_admin for user in directory.users.values())


@given(st.lists(STEPS, max_size=12))
@settings(max_examples=20, deadline=None)
def test_the_store_holds_what_is_in_memory(steps: list[Step]) -> None:
    before = directories.directory()

    async def written(folder: Path) -> None:
        store = SqliteStore(folder / "store.db")
        await amend(store, whole(before))
        for amendment, directory in made(before, steps):
            await amend(store, amendment)
            assert await store.directory() == directory
        await store.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(written(Path(folder)))


@given(st.sets(KEYS))
def test_a_use_is_noted_of_the_keys_that_there_are_and_of_nothing_else(used: set[int]) -> None:
    kept = [directories.key(directories.text(number), identifier=f"K{number}") for number in (1, 2)]
    before = directories.directory(*kept)
    after = model_directory.with_key_use(before, {f"K{number}": directories.LATER for number in used})
    assert replace(after, keys=before.keys) == before
    assert {key.id for key in after.keys.values() if key.last_used_at == directories.LATER} == {
        f"K{number}" for number in used & {1, 2}
    }
