"""The text that a program prints of itself, in a trace or while somebody looks for a fault, holds no secret."""

from reconciler.model import desired, positions
from reconciler.model import documents as model_documents
from reconciler.model.desired import DocumentRules
from reconciler.model.names import Key
from reconciler.model.principals import Actor, Role
from reconciler.planner import decisions
from reconciler.planner.changes import ChangeRows, Origin
from reconciler.planner.decisions import DocumentBatch
from reconciler.planner.stored import StoreSnapshot
from reconciler.worker.messages import Context, Part, RequestJob, RoutesFound, Verb
from tests import worlds as whole
from tests.projects import destination, type_of

SECRET = "canary-printed"
KEY = b"canary-key-of-the-server"
OWN = type_of("own", {"name": "token", "type": "string", "options": {"sensitive": True}})
RULES = DocumentRules(api_versions=whole.API_VERSIONS, hmac_key=KEY)


def test_what_goes_over_the_pipe_is_not_printed() -> None:
    context = Context("store", "default", KEY, whole.API_VERSIONS, "now", 0, b"seed")
    somebody = Actor("somebody", Role.ADMIN)
    job = RequestJob(
        context=context, verb=Verb.APPLY, actor=somebody, request="1", body=SECRET.encode(), max_resources=1
    )
    assert "canary" not in repr((context, job, Part(SECRET.encode()), RoutesFound(0, SECRET.encode())))


def test_what_is_decided_and_what_is_stored_is_not_printed() -> None:
    with whole.world({}) as world:
        world.apply([OWN, destination("one", token=SECRET)])
        told = world.apply([OWN, destination("one", token=SECRET + "2")])
        assert told.statuses == ["unchanged", "configured"]
        rows = [row for part in told.parts for row in (*part.versions, *part.rewritten)]
        documents = world.view.documents(whole.PROJECT, [Key("Destination", "one")])
        versions = [*world.view.versions_naming(whole.PROJECT, ["Destination"], ["own"])]
        read = model_documents.read(SECRET.encode(), syntax=model_documents.Syntax.YAML, limits=positions.FILE_LIMITS)
        found = desired.read_items([destination("one", token=SECRET + "3")], rules=RULES)
        meets = StoreSnapshot(world.view, whole.PROJECT, KEY)
        actor = Actor("somebody", Role.ADMIN)
        stored = meets.stored([Key("Destination", "one")])
        batch = DocumentBatch(found, stored, actor=actor, accept_invalid=False, tell=lambda *_: "")
        [decided] = decisions.decide([batch], meets)
        source = {"date": "now", "type": "api"}
        origin = Origin(whole.PROJECT, "somebody", None, None, None, "now", 0, b"seed", source, KEY)
        changes = [*ChangeRows(decided, world.view, origin=origin).parts()]
    assert (len(rows), len(documents), len(versions), len(decided.outcomes)) == (1, 1, 2, 1)
    seen = repr((rows, documents, versions, read, found, meets, RULES, batch, decided, origin, changes))
    assert "(sensitive)" in seen
    assert "canary" not in seen
