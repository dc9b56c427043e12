"""Which project a request means: the header `X-Service-Project`, or the one that every installation has."""

from api import errors
from api.calls import Call

DEFAULT = "default"


async def chosen(call: Call) -> str:
    """The project's name. Raises `NotFound` for one that does not exist, `BadRequest` for two."""
    if b"x-service-project" not in call.headers:
        return DEFAULT
    values = call.header(b"x-service-project")
    if len(values) > 1:
        raise errors.BadRequest("The header X-Service-Project is given more than once.")
    name = values[0].decode("latin-1").strip()
    if name != DEFAULT and name not in await call.services.store.projects():
        raise errors.NotFound("There is no such project.")
    return name
