"""Signing out at the provider too (OpenID Connect RP-Initiated Logout 1.0).

Belongs here: where the browser goes. Does not: ending the session here.
"""

from urllib.parse import urlencode, urlsplit, urlunsplit

LONGEST_HINT = 4096  # characters: servers refuse a longer line, and with the hint left out the provider asks the person


def sign_out_url(endpoint: str, *, id_token: str, client_id: str, back: str) -> str:
    """The endpoint with its own query and ours (2)."""
    hint = {"id_token_hint": id_token} if 0 < len(id_token) <= LONGEST_HINT else {}
    added = urlencode({**hint, "client_id": client_id, "post_logout_redirect_uri": back})
    parts = urlsplit(endpoint)
    return urlunsplit(parts._replace(query=f"{parts.query}&{added}" if parts.query else added))
