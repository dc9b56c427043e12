"""The repositories of a session: all that the service follows, or those of the project that was chosen."""

from reconciler.cli import connecting
from reconciler.cli.answers import answer_objects, answer_text
from reconciler.cli.client import Client
from reconciler.model.values import Value

NONE = "the service follows no repository in a project of yours; one is named under `repositories` in its settings"


def repositories_of(client: Client, *, project: str | None) -> list[dict[str, Value]]:
    """The repositories, in the service's order. Raises Refused for a project that does not exist."""
    found = answer_objects(client.get("repositories").get("repositories"))
    if project is None:
        return found
    chosen = [repository for repository in found if answer_text(repository, "project") == project]
    if not chosen:
        check_repositories(client)
    return chosen


def check_repositories(client: Client) -> None:
    """Raise Refused when the session's project does not exist; any request about resources says so."""
    client.get("resources", "Fleet", query={"limit": "1"})


def no_repositories(project: str | None) -> str:
    """What to say when there is none."""
    return NONE if project is None else f"the service follows no repository for the project {project}"


def one_repository(client: Client, name: str) -> Value:
    """One repository by its name, of whatever project. Raises Refused."""
    with connecting.explain_missing(unknown_repository(name)):
        return client.get("repositories", name).get("repository")


def unknown_repository(name: str) -> str:
    """What to say when there is no such repository."""
    return f"there is no repository {name}; `reconciler status` shows those there are"
