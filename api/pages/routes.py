"""Every page, with its methods. All are public for the edge: each looks at the cookie itself (`visitors`).

Belongs here: which path leads to which handler. Does not: the interface's own paths (`api.app`).
"""

from api.endpoints import Endpoint
from api.judging import public
from api.pages import accounts, assets, explained, invitations, leaving, local, paths, provider, reference

ROUTES = (
    (paths.HOME, Endpoint(GET=public(accounts.home))),
    (paths.SIGN_IN, Endpoint(GET=public(local.show_sign_in), POST=public(local.sign_in))),
    (paths.PROVIDER, Endpoint(GET=public(provider.begin_sign_in))),
    (paths.CALLBACK, Endpoint(GET=public(provider.come_back))),
    (paths.INVITATION, Endpoint(GET=public(invitations.show_invitation), POST=public(invitations.use_invitation))),
    (paths.ACCOUNT, Endpoint(GET=public(accounts.show))),
    (paths.KEYS, Endpoint(POST=public(accounts.make_key))),
    (paths.REVOKE, Endpoint(POST=public(accounts.revoke_key))),
    (paths.PASSWORD, Endpoint(POST=public(accounts.change_password))),
    (paths.SIGN_OUT, Endpoint(POST=public(leaving.sign_out))),
    (paths.SIGNED_OUT, Endpoint(GET=public(leaving.show_signed_out))),
    (paths.NOTIFICATIONS, Endpoint(GET=public(explained.show_explained))),
    (paths.REFERENCE, Endpoint(GET=public(reference.show))),
    (paths.REFERENCE_FOLDER, Endpoint(GET=public(reference.lead))),
    (paths.STYLE, Endpoint(GET=public(assets.serve_style))),
    (paths.ICON, Endpoint(GET=public(assets.serve_icon))),
    (paths.FAVICON, Endpoint(GET=public(assets.serve_icon))),
)

PAGES = frozenset(path for path, _ in ROUTES)
