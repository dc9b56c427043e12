"""The project that a command means whose path names one."""

from reconciler.cli.answers import answer_at, answer_objects, answer_text
from reconciler.cli.client import CHOOSE_HINT, Client
from reconciler.cli.sessions import Session
from reconciler.model.errors import Refused
from reconciler.model.principals import DEFAULT_PROJECT


def chosen_project(client: Client, session: Session) -> str:
    """The project that is meant, by the service's own rule for requests that name none. Raises Refused."""
    if session.project is not None:
        return session.project
    within = [answer_text(one, "name") for one in answer_objects(answer_at(client.get("me"), "me", "projects"))]
    if DEFAULT_PROJECT in within:
        return DEFAULT_PROJECT
    if len(within) != 1:
        raise Refused(CHOOSE_HINT)
    return within[0]
