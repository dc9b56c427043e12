"""The keys on the account's page: those that somebody may see, what may be filled in for another, making and revoking.

Belongs here: from a form to what the interface takes, and back. Does not: the rules, which are those of `api.api_keys`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from api import api_keys, judging
from api.calls import Call
from api.objects import Members
from api.pages.forms import Form
from api.pages.mistakes import Mistake
from api.pages.shown import ShownPart
from reconciler.auth import changes
from reconciler.model.clock import rfc3339
from reconciler.model.directory import Key, is_expired
from reconciler.model.principals import Permission, Role, Scope

MOST_SHOWN = 200
MOST_CHOICES = 200  # of projects; where there are more, their names are typed
EVERY_PROJECT = "The whole organization"
EXPIRIES = (
    ("720h", "in 30 days"),
    ("2160h", "in 90 days"),
    ("8760h", "in 365 days"),
    ("", f"in {changes.KEY_LASTS.days} days; a key of your own never"),
)
OWN = "own"  # what the form says of a personal key
SCOPES = {
    Scope.RESOURCES: "resources: what its role permits",
    Scope.LOGS: "logs: sending log records in",
    Scope.METRICS: "metrics: reading the service's own metrics",
    Scope.RAW: "raw: reading what a Collector loads",
}
NAMES = {
    "name": "The name",
    "project": "The project",
    "role": "The role",
    "expiry": "The end",
    "personal": "Whose it is",
}
CHOOSE = "Choose at least one of the scopes."


@dataclass(frozen=True, slots=True)
class AskedKey:
    """What was filled in."""

    name: str = ""
    project: str = ""
    role: str = Role.VIEWER.value
    scopes: tuple[str, ...] = (Scope.RESOURCES.value,)
    expiry: str = "2160h"
    whose: str = ""


class KeyChoices(NamedTuple):
    """What may be chosen, each as value and words; no `projects` where there are too many to list."""

    projects: Sequence[tuple[str, str]] | None
    roles: Sequence[str]
    scopes: Sequence[tuple[str, str]]
    expiries: Sequence[tuple[str, str]]
    can_own: bool
    can_share: bool  # make keys that are not their own


class ShownKey(NamedTuple):
    """A key that there is."""

    id: str
    name: str
    facts: Sequence[tuple[str, str]]


class Mistaken(Exception):
    """What is wrong with a key that was asked for."""

    def __init__(self, *mistakes: Mistake) -> None:
        super().__init__()
        self.mistakes = mistakes


def read_asked(form: Form) -> AskedKey:
    """What a form says. Raises `BadRequest` for a field that is given twice."""
    return AskedKey(
        name=form.text("name"),
        project=form.text("project"),
        role=form.text("role"),
        scopes=tuple(form.texts("scopes")),
        expiry=form.text("expiry"),
        whose=form.text("whose"),
    )


async def make_form_key(call: Call, wanted: AskedKey) -> tuple[Key, str]:
    """The new key, and its text. Raises Mistaken, `NotFound`, `Forbidden`."""
    try:
        return await api_keys.make_key(call, _Fields(wanted))
    except (changes.Invalid, changes.Conflict) as problem:
        raise Mistaken(Mistake("key-name", problem.message)) from None


async def end_form_key(call: Call, identifier: str) -> None:
    """Revoke a key. Raises `Missing`, `NotFound`, `Forbidden`."""
    await api_keys.end_key(call, identifier)


def shown_keys(call: Call) -> ShownPart[ShownKey] | None:
    """The keys that somebody may see; None for who may have none, of any project."""
    if not call.principal.roles and not api_keys.may_manage_any(call.principal):
        return None
    part = ShownPart.of(api_keys.visible(call), most=MOST_SHOWN)
    return ShownPart([_shown(call, key) for key in part.shown], part.more)


def key_choices(call: Call) -> KeyChoices:
    """What may be filled in for another key."""
    admin, can_share = call.principal.organization_admin, api_keys.may_manage_any(call.principal)
    existing = sorted(call.services.accounts.directory.projects)
    names = [name for name in existing if call.principal.role_in(name) is not None]
    # Those whose keys one may make come first: the first is the one that is chosen.
    names.sort(key=lambda name: not judging.permits(call, Permission.MANAGE_KEYS, project=name))
    projects = [(name, name) for name in names] + ([("", EVERY_PROJECT)] if admin else [])
    return KeyChoices(
        projects=projects if len(projects) <= MOST_CHOICES else None,
        roles=[role.value for role in Role],
        scopes=[(scope.value, words) for scope, words in SCOPES.items() if admin or scope is not Scope.METRICS],
        expiries=EXPIRIES,
        can_own=call.principal.user is not None,
        can_share=can_share,
    )


def at_first(choices: KeyChoices) -> AskedKey:
    """What a form holds before anybody filled it in: the whole organization must be chosen."""
    whose = "" if choices.can_share else OWN
    return AskedKey(project=choices.projects[0][0], whose=whose) if choices.projects else AskedKey(whose=whose)


class _Fields(Members):
    """A form's fields as the members of a body, each mistake at its field."""

    def __init__(self, wanted: AskedKey) -> None:
        super().__init__(
            {
                "name": wanted.name,
                "project": wanted.project or None,
                "role": wanted.role,
                "scopes": list(wanted.scopes),
                "personal": wanted.whose == OWN,
                **({"expiry": wanted.expiry} if wanted.expiry else {}),
            },
            known=api_keys.MEMBERS,
        )
        self.found: list[Mistake] = []

    def mistake(self, name: str, sentence: str) -> None:
        told = CHOOSE if name == "scopes" else f"{NAMES[name]} {sentence}."
        self.found.append(Mistake(f"key-{name}", told))

    def check(self) -> None:
        if self.found:
            raise Mistaken(*self.found)


def _shown(call: Call, key: Key) -> ShownKey:
    over = is_expired(key, now=rfc3339(call.services.clock()))
    end = "never" if key.expires_at is None else key.expires_at
    return ShownKey(
        key.id,
        key.name,
        (
            ("Begins with", key.prefix),
            (
                "Project",
                key.project if key.project is not None else EVERY_PROJECT if key.owner is None else "Every one",
            ),
            ("Role", key.role.value if key.owner is None else f"{key.role.value}, and at most that of its person"),
            ("Scopes", ", ".join(sorted(key.scopes))),
            ("Made", f"{key.created_at} by {key.created_by}"),
            ("Ends", f"{end} (it has ended)" if over else end),
            ("Last used", key.last_used_at or "never"),
        ),
    )
