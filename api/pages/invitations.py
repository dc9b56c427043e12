"""`/invitation`: a code that somebody was given, taken along through the provider.

Belongs here: the form. Does not: what a code admits to (`reconciler.auth.admission`), making them.
"""

from starlette.responses import Response

from api import errors, queries
from api.calls import Call
from api.pages import forms, pacing, paths
from api.pages.mistakes import Mistake
from api.pages.provider import leave_for_provider, unusable
from api.pages.rendering import Page, page
from reconciler.auth import invitations
from reconciler.auth.oidc import discovery

NO_CODE = "This is no invitation code: it begins with rci_ and has 47 characters."


async def show_invitation(call: Call) -> Response:
    """GET /invitation"""
    _has_invitations(call)
    return _invitation_form()


async def use_invitation(call: Call) -> Response:
    """POST /invitation"""
    _has_invitations(call)
    queries.none_known(call.query)
    form = await forms.read_form(call)
    pacing.check_pace(call, paths.INVITATION)
    code = form.text("code").strip()
    if invitations.code_digest(code) is None:
        return _invitation_form(Mistake("code", NO_CODE))
    try:
        place, cookie = await leave_for_provider(call, back=paths.ACCOUNT, invitation=code)
    except (discovery.ProviderUnreachable, discovery.ProviderUnfit) as problem:
        return unusable(call, problem)
    # A redirect of a form would count as one to the provider, which `form-action` of these pages forbids.
    sentence = "Your invitation counts when the provider has signed you in."
    return page("onwards", headers=(cookie,), place=place, heading="Sign in", sentence=sentence)


def _has_invitations(call: Call) -> None:
    if not call.services.takes_invitations:
        raise errors.NotFound("Invitations admit nobody here.")


def _invitation_form(*mistakes: Mistake) -> Page:
    return page("invitation", status=400 if mistakes else 200, mistakes=mistakes)
