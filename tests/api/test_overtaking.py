"""What a request writes makes no plan void but those that looked at it, however the request came."""

from typing import Any

import httpx2
import pytest

from reconciler.model import outcomes
from reconciler.model.names import Key
from reconciler.server.services import Services
from reconciler.store.contract import Moved, Record
from tests.api.parts import destination

pytestmark = pytest.mark.anyio

WRITES: dict[str, tuple[str, str, Any]] = {
    "apply": ("POST", "/v1/apply", {"resources": [destination("written", description="again")]}),
    "delete": ("POST", "/v1/delete", [{"kind": "Destination", "metadata": {"name": "written"}}]),
    "delete one": ("DELETE", "/v1/resources/Destination/written", None),
}


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_through_http_touches_what_it_writes_and_no_more(
    services: Services, client: httpx2.AsyncClient, project: str, write: str
) -> None:
    await client.post("/v1/apply", json={"resources": [destination("written")]})
    planned_at = await services.store.revision()
    method, path, body = WRITES[write]
    answer = await client.request(method, path, json=body)
    assert answer.is_success
    assert await services.store.revision() == planned_at + 1

    async def holds(name: str) -> bool:
        looked_at = outcomes.footprint_of(project, [Key("Destination", name)], whole=outcomes.OF_PLAN)
        try:
            await services.store.commit((), record=Record(), planned_at=planned_at, footprint=looked_at)
        except Moved:
            return False
        return True

    assert [await holds("another"), await holds("written")] == [True, False]
