"""Plans of proposals."""

from collections.abc import AsyncGenerator, Sequence

import msgspec
from starlette.responses import Response

from api import access, errors, replicas, repositories, requests, responses
from api.calls import Call, Subject
from api.responses import Json
from api.routing import Routes
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import ProposalNotFound
from reconciler.model.error_codes import ErrorCode
from reconciler.model.principals import Permission
from reconciler.review import kept_plans
from reconciler.review.kept_plans import KeptPlan, PlanRequest
from reconciler.review.service import TooManyQuestions
from reconciler.worker.process import Overdue

routes = Routes()

LIST_PARAMETERS = frozenset({"repository", "limit"})
LARGEST_PAGE = 10_000  # plans, as of runs, although fewer are kept
PAGE = 100  # plans, when no limit is given
STATUSES_AT_ONCE = 100
AGAIN_SECONDS = 5.0  # until a plan that found no room may be requested again
LOOK_AGAIN_SECONDS = 30.0  # until a plan may be requested again whose remote did not answer
OF_COMMITS = frozenset(
    {
        RepositoryState.BRANCH_MISSING,
        RepositoryState.PATH_MISSING,
        RepositoryState.EMPTY,
        RepositoryState.UNSUPPORTED_FORMAT,
    }
)


@routes.add("POST /v1/plan", Subject.REACH, Permission.READ)
async def make(call: Call) -> Response:
    """Plan a proposal."""
    body = await requests.read_object(call, known=("repository", "head", "base"))
    asked = PlanRequest(body.text("repository", required=True) or "", body.text("head"), body.text("base"))
    body.check()
    access.project_of_repository(call, asked.repository)
    kept = await responses.unless_gone(call.receive, _planned(call, asked))
    return await _shown(call, kept)


@routes.add("GET /v1/plans", Subject.REACH, Permission.READ)
async def list_all(call: Call) -> Response:
    """List the plans within reach that this and the other replicas keep, the newest first."""
    query = requests.Query(call.query, known=LIST_PARAMETERS, strict=False)
    limit = query.integer("limit", lowest=1, highest=LARGEST_PAGE, default=PAGE)
    query.check()
    repository, projects = query.text("repository"), access.reach(call)
    plans = [
        plan
        for plan in call.services.reviewing.shelf.newest()
        if repository in (None, plan.repository) and access.is_within(projects, plan.project)
    ][:limit]
    stale = await call.services.reviewing.are_stale(plans)
    heads = [kept_plans.plan_head(plan, stale=is_stale) for plan, is_stale in zip(plans, stale, strict=True)]
    elsewhere = await replicas.ask_others(call, replicas.asked_path(call))
    for body in elsewhere.values():
        heads += map(bytes, msgspec.json.decode(body, type=_Plans).plans)
    # Not by id: ids of one millisecond have no order, and the plans of one replica are in order already.
    heads.sort(key=lambda head: msgspec.json.decode(head, type=_Made).created_at, reverse=True)
    return Json(responses.json_array(b"plans", heads[:limit]))


class _Plans(msgspec.Struct):
    plans: list[msgspec.Raw]


class _Made(msgspec.Struct, rename="camel"):
    created_at: str


@routes.add("GET /v1/plans/{id}", Subject.REACH, Permission.READ)
async def get(call: Call) -> Response:
    """Show one plan, which this or another replica keeps."""
    reachable, kept = access.reach(call), call.services.reviewing.shelf.get(call.parameters["id"])
    if kept is None and replicas.ULID.fullmatch(call.parameters["id"]):
        answers = await replicas.ask_others(call, replicas.asked_path(call))
        if answers:
            return Json(next(iter(answers.values())))
    if kept is None or not access.is_within(reachable, kept.project):
        raise errors.NotFound("There is no such plan; plans are kept for a while, so ask again with POST /v1/plan.")
    return await _shown(call, kept)


async def _planned(call: Call, asked: PlanRequest) -> KeptPlan:
    try:
        return await call.services.reviewing.plan(asked)
    except kept_plans.UnknownProposal:
        raise repositories.missing() from None  # the repository was removed while its plan waited
    except ProposalNotFound as problem:
        raise errors.NotFound(problem.message) from problem
    except kept_plans.Unmergeable as problem:
        raise errors.Conflict(*problem.sentences, code=ErrorCode.MERGE_CONFLICT) from problem
    except TooManyQuestions as problem:
        raise errors.TooMany(problem.message, after=AGAIN_SECONDS) from problem
    except (kept_plans.TookTooLong, Overdue) as problem:
        raise errors.Unavailable(problem.message, after=AGAIN_SECONDS, code=ErrorCode.TOOK_TOO_LONG) from problem
    except GitFault as fault:
        raise _refusal(fault) from fault


def _refusal(fault: GitFault) -> errors.Problem:
    """Return the error for a fault of git. A fault in the content of a commit needs a correction; any other may
    pass.
    """
    if fault.of_head or fault.state in OF_COMMITS:
        return errors.Conflict(fault.message, code=ErrorCode.COMMIT_REFUSED)
    after = fault.retry_after or LOOK_AGAIN_SECONDS
    return errors.Unavailable(fault.message, after=after, code=ErrorCode.REPOSITORY_UNAVAILABLE)


async def _shown(call: Call, kept: KeptPlan) -> Response:
    [stale] = await call.services.reviewing.are_stale([kept])
    renderings = kept_plans.plan_renderings(kept)
    head = b",".join(filter(None, (kept_plans.plan_head(kept, stale=stale).removesuffix(b"}"), renderings)))
    before = b'{"plan":%b,"statuses":[' % head
    with_raw = access.permits(call, Permission.READ_RAW, project=kept.project)
    pages = _pages(kept_plans.plan_statuses(kept, with_raw=with_raw))
    return responses.Streamed(responses.join_parts(before, pages, b"]}}"))


async def _pages(statuses: Sequence[bytes]) -> AsyncGenerator[list[bytes], None]:
    for first in range(0, len(statuses), STATUSES_AT_ONCE):
        yield list(statuses[first : first + STATUSES_AT_ONCE])
