"""Applies, reads, pages and deletes with the generated Python client. `test_clients` runs it in the generator's own
environment and compares what it prints.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER, URL, KEY = sys.argv[1:]
PACKAGE = Path(FOLDER).name
KIND = "Fleet"


def generated(name: str) -> Any:
    """Return a module of the generated client."""
    return import_module(f"{PACKAGE}.{name}")


def fleet(name: str) -> Any:
    """Return a resource to apply."""
    labels = {"team": "edge"}
    value = {"apiVersion": "service/v1", "kind": KIND, "metadata": {"name": name, "labels": labels}}
    return models.Fleet.from_dict({**value, "spec": {"selector": {"matchLabels": {"site": name}}}})


def page() -> list[list[str]]:
    """List every resource, two at a time."""
    pages: list[list[str]] = []
    after = types.UNSET
    while True:
        answer = generated("api.resources.list_resources").sync(KIND, client=client, limit=2, after=after)
        names = [resource.metadata.name for resource in answer.resources]
        pages.append(names)
        if len(names) < 2:
            return pages
        after = names[-1]


sys.path.insert(0, str(Path(FOLDER).parent))
models, types = generated("models"), generated("types")
client = generated("client").AuthenticatedClient(base_url=URL, token=KEY)
resources = generated("api.resources.get_resource"), generated("api.resources.delete_resource")
applied = generated("api.changes.apply").sync(
    client=client, body=models.ApplyRequest(resources=[fleet(name) for name in ("one", "three", "two")])
)
read = resources[0].sync(KIND, "one", client=client).resource.metadata
pages = page()
reference = models.Reference.from_dict({"kind": KIND, "metadata": {"name": "one"}})
deleted = generated("api.changes.delete").sync(client=client, body=[reference])
removed = resources[1].sync_detailed(KIND, "two", client=client)
refused = resources[0].sync(KIND, "one", client=client)
told = {
    "apply": [str(update.status) for update in applied.updates],
    "read": [read.name, read.version],
    "page": pages,
    "remove": [[str(update.status) for update in deleted.updates], int(removed.status_code)],
    "refuse": refused.codes,
}
print(json.dumps(told))
