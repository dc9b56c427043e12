"""The repositories of a session: all that the service follows, or those of the project that was chosen."""

from reconciler.cli import connecting
from reconciler.cli.answers import objects, text
from reconciler.cli.client import Client
from reconciler.documents.values import Value

NONE = "the service follows no repository in a project of yours; one is named under `repositories` in its settings"


def of(client: Client, *, project: str | None) -> list[dict[str, Value]]:
    """The repositories, in the service's order. Raises Refused for a project that does not exist."""
    found = objects(client.get("repositories").get("repositories"))
    if project is None:
        return found
    chosen = [repository for repository in found if text(repository, "project") == project]
    if not chosen:
        check(client)
    return chosen


def check(client: Client) -> None:
    """Raise Refused when the session's project does not exist; any request about resources says so."""
    client.get("resources", "Fleet", query={"limit": "1"})


def none(project: str | None) -> str:
    """What to say when there is none."""
    return NONE if project is None else f"the service follows no repository for the project {project}"


def one(client: Client, name: str) -> Value:
    """One repository by its name, of whatever project. Raises Refused."""
    with connecting.missing(unknown(name)):
        return client.get("repositories", name).get("repository")


def unknown(name: str) -> str:
    """What to say when there is no such repository."""
    return f"there is no repository {name}; `reconciler status` shows those there are"
