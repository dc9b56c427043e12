"""Projects are rendered when they change, and again while there is more to do."""

import asyncio

import pytest

from reconciler.server.project_following import RenderingFollowing
from reconciler.store.records import ResourceChange
from tests.waiting import until

pytestmark = pytest.mark.anyio


async def test_a_project_with_more_to_render_comes_again_after_the_others() -> None:
    asked: list[str] = []

    async def render(project: str) -> bool:
        asked.append(project)
        return asked.count(project) < {"a": 3, "b": 1}[project]

    following = RenderingFollowing(render)
    task = asyncio.create_task(following.keep(["a", "b"]))
    await until(lambda: asked == ["a", "b", "a", "a"])
    following.heard(ResourceChange(None, project="b"))
    await until(lambda: asked == ["a", "b", "a", "a", "b"])
    task.cancel()
