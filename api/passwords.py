"""Passwords in bodies: what a new one must be."""

from api.objects import Members
from reconciler.auth import changes


def chosen_password(body: Members, name: str, *, required: bool = True) -> str:
    """A new password in a body; empty when it is not given, or noted as a mistake."""
    text = body.text(name, required=required)
    if text is None:
        return ""
    try:
        changes.check_password(text)
    except changes.Invalid as problem:
        body.mistake(name, problem.message[0].lower() + problem.message[1:].rstrip("."))
    return text
