"""The service serves the contract, for every operation in it and with whatever is sent."""

import asyncio
import dataclasses
import itertools
import json
import re
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import openapi_spec_validator
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.specs.openapi.checks import ignored_auth, negative_data_rejection, positive_data_acceptance
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import api.app
from api import auth, openapi
from api.calls import Services
from reconciler.auth.sign_in import SigningIn
from reconciler.model.names import KINDS
from reconciler.reconcile.apply import ApplyRequest
from reconciler.version import __version__
from reconciler.worker.messages import ApplyOptions
from tests.api import contracts, parts
from tests.api.conftest import SECONDS
from tests.api.contracts import DOCUMENT, operations
from tests.api.parts import destination
from tests.repositories import Repository

REQUEST = "01KAH30ZPT8Q1X2Y3Z4A5B6C7D"

T = TypeVar("T")


def test_the_document_is_openapi() -> None:
    openapi_spec_validator.validate(DOCUMENT)
    assert (DOCUMENT["info"]["version"], DOCUMENT["info"]["x-service-version"]) == ("0.0.1", __version__)


@pytest.mark.usefixtures("serving")
def test_the_document_is_served_as_it_is_loaded() -> None:
    assert schemathesis.openapi.from_asgi("/openapi.json", served).raw_schema == DOCUMENT


def test_every_path_is_in_the_contract_with_its_methods() -> None:
    served = {path: endpoint.operations.keys() - {"HEAD"} for path, endpoint in api.app.ENDPOINTS.items()}
    documented: dict[str, set[str]] = {}
    for path, method, _ in operations():
        documented.setdefault(path, set()).add(method.upper())
    assert served == documented


def test_the_page_for_people_shows_every_path_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
    table = page.partition("| Method and path |")[2].partition("\n\n")[0]
    shown = set(re.findall(r"/[a-z][-a-z0-9/{}.]*", re.sub(r"\(#[^)]*\)", "", table)))
    assert shown - {"/v1"} == set(DOCUMENT["paths"])


def test_exactly_the_public_paths_need_no_credential() -> None:
    public = {path for path, endpoint in api.app.ENDPOINTS.items() if endpoint.is_public}
    assert {path for path, _, operation in operations() if operation.get("security") == []} == public


def test_the_cookie_of_a_session_is_a_credential_by_the_name_that_it_has_over_https() -> None:
    scheme = DOCUMENT["components"]["securitySchemes"]["session"]
    name = auth.Cookies(is_secure=True).session
    assert (scheme["type"], scheme["in"], scheme["name"]) == ("apiKey", "cookie", name)


def test_every_kind_has_a_component_and_may_be_applied() -> None:
    references = [{"$ref": f"#/components/schemas/{kind.name}"} for kind in KINDS]
    assert DOCUMENT["components"]["schemas"]["KnownResource"]["anyOf"] == references
    for kind in KINDS:
        assert DOCUMENT["components"]["schemas"][kind.name]["properties"]["kind"]["const"] == kind.name


def test_every_reference_leads_somewhere_in_the_document() -> None:
    for reference in set(re.findall(r'"\$ref":"([^"]*)"', openapi.encoded().decode())):
        value: Any = DOCUMENT
        assert reference.startswith("#/")
        for part in reference[2:].split("/"):
            value = value[part]


def media() -> Iterator[Any]:
    """Each place with a schema and examples: bodies, answers."""
    for path, method, operation in operations():
        bodies = [("request", operation["requestBody"])] if "requestBody" in operation else []
        for name, body in [*bodies, *operation["responses"].items()]:
            if "$ref" not in body and "content" in body:
                for content in body["content"].values():
                    yield pytest.param(content, id=f"{method} {path} {name}")
    for name, response in DOCUMENT["components"]["responses"].items():
        if "content" in response:
            yield pytest.param(response["content"]["application/json"], id=name)


@pytest.mark.parametrize("content", list(media()))
def test_every_body_has_examples_that_fit_its_schema(content: dict[str, Any]) -> None:
    validator = contracts.validator(content["schema"])
    assert content["examples"]
    for example in content["examples"].values():
        shared = example.get("$ref", "").rpartition("/")[2]
        value = (DOCUMENT["components"]["examples"][shared] if shared else example)["value"]
        assert list(validator.iter_errors(value)) == []


class Elsewhere:
    """The application and its parts on a loop in a thread of their own; whatever loop calls it, it answers there.

    The generator's client makes a loop for each call, and the operations are collected before any test has services.
    """

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        here = asyncio.get_running_loop()

        async def receive_from_here() -> Message:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_coroutine(receive()), here))

        async def send_to_here(message: Message) -> None:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_coroutine(send(message)), here))

        answering = _coroutine(self.app(scope, receive_from_here, send_to_here))
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(answering, self.loop))

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(SECONDS)


async def _coroutine(awaitable: Awaitable[T]) -> T:
    return await awaitable


served = Elsewhere()
schema = schemathesis.openapi.from_dict(DOCUMENT)


@schemathesis.serializer("application/x-protobuf")
def _as_it_is(_context: schemathesis.SerializationContext, value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


schema.app = served
# That phase sends arrays one longer than the contract allows, of 10,001 resources: half a minute for one boundary.
schema.config.phases.coverage.enabled = False


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Serves, with the repository that the contract's examples name."""
    source = Repository.init(tmp_path_factory.mktemp("source"))
    source.write("siem.json", json.dumps(destination("siem")))
    source.commit()
    thread = threading.Thread(target=served.loop.run_forever, name="served")
    thread.start()
    context = parts.started(tmp_path_factory.mktemp("served"))
    try:
        started = served.call(context.__aenter__())
        # Made-up credentials are to be refused as such, not for how many there were: each comes hours after the last.
        patient = SigningIn(started.services.accounts, monotonic=itertools.count(step=10_000).__next__)
        served.app = api.app.build(dataclasses.replace(started.services, signing_in=patient))
        watched = parts.watched("telemetry", source.path, project=parts.DEFAULT)
        served.call(started.repositories.start([watched]))
        started.services.events.is_closed = True  # a stream has no end, and no request is to wait
        yield started.services
        served.call(context.__aexit__(None, None, None))
    finally:
        served.loop.call_soon_threadsafe(served.loop.stop)
        thread.join()
        served.loop.close()


@pytest.fixture
def hold(serving: Services) -> Callable[[], None]:
    """Before each operation the resource that the contract's examples name is there, so that they are answered with
    more than 404.
    """
    request = ApplyRequest(id=REQUEST, project=parts.DEFAULT, actor=parts.SERVICE)
    body = json.dumps({"resources": [destination("audit-log")]}).encode()

    def begin() -> None:
        served.call(serving.applier.apply(body, request=request, options=ApplyOptions()))

    return begin


# Not the generator's: the loop of the watched repository draws when it looks next, in its own thread, meanwhile.
DRAWS = pytest.mark.filterwarnings(
    "ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning"
)


@DRAWS
@pytest.mark.parametrize("most", [3, pytest.param(16, marks=pytest.mark.slow)])  # examples
def test_whatever_is_sent_is_answered_as_documented(
    most: int, hold: Callable[[], None], subtests: pytest.Subtests
) -> None:
    # Not by the library's decorator, which makes these already when the tests are collected: that takes a second, in
    # each process of the tests.
    made_up = settings(max_examples=most, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    number = 0
    for made in get_all_tests(schema=schema, test_func=is_answered_as_documented, settings=made_up, given_kwargs={}):
        assert isinstance(made, Ok), made
        operation, test = made.ok()
        with subtests.test(operation.label):
            hold()
            test()
            number += 1
    assert number == len(list(operations()))


def is_answered_as_documented(case: schemathesis.Case[Any]) -> None:
    """Send it, and look at the answer."""
    # The generator makes credentials up; with those every answer would be 401, which other tests look at.
    case.headers.pop("X-Service-Api-Key", None)
    case.cookies.pop("__Host-reconciler", None)
    answer = case.call(headers={"Authorization": f"Bearer {parts.KEY}"})
    excluded: list[schemathesis.CheckFunction] = [ignored_auth]  # sends it twice more; see `test_matrix`
    if case.path == "/v1/events":
        excluded.append(not_a_server_error)  # of a service that stops, see `serving`
    # What OTLP is, the contract does not repeat.
    if case.path == "/v1/logs" or _is_over_a_limit(answer) or _is_about_credentials(case):
        excluded += [positive_data_acceptance, negative_data_rejection]
    case.validate_response(answer, excluded_checks=excluded)


def _is_about_credentials(case: schemathesis.Case[Any]) -> bool:
    """Tell if the generator spoiled a header, of which it knows `Authorization` alone: a right one is sent instead."""
    mutations = () if case.meta is None else case.meta.phase.data.mutations
    return any(mutation.parameter_location is ParameterLocation.HEADER for mutation in mutations)


UNSTATED = (
    "body:",
    "/expiry: ",
    *(f"The query parameter `{name}` is " for name in ("since", "until")),  # the last day of a month, and their order
)


def _is_over_a_limit(answer: Response) -> bool:
    """A limit that no schema states: the size of a body, or of an integer wherever one may stand; how far away an
    expiry is; what two parameters say together.
    """
    if answer.status_code in (412, 413):
        return True
    return answer.status_code == 400 and str(answer.json()["errors"][0]).startswith(UNSTATED)
