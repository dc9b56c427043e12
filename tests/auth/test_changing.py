"""Changes of access: what refuses them, and the directory afterwards."""

from dataclasses import replace
from datetime import datetime

import pytest

from reconciler.auth import changes
from reconciler.auth.changes import Conflict, Invalid, Missing
from reconciler.model import directory
from reconciler.model.directory import Amendment, Audited, Directory, Key, Project
from reconciler.model.principals import Role, Scope
from tests.auth import arrivals, directories

KEY = directories.key(directories.text(1))


def after(amendment: Amendment, *kept: Key) -> Directory:
    return directory.amended(directories.directory(*(kept or (KEY,))), amendment)


def test_a_project_is_created_once_and_named_by_the_rule() -> None:
    before = directories.directory()
    made = changes.create_project(before, "search", at=directories.AT)
    assert after(made).projects["search"] == Project("search", directories.AT)
    assert made.audited == Audited("created", "Project", "search", project="search")
    with pytest.raises(Conflict, match=r"^The project payments exists already.$"):
        changes.create_project(before, "payments", at=directories.AT)
    with pytest.raises(Invalid, match=r"^The project's name must be "):
        changes.create_project(before, "Search", at=directories.AT)


@pytest.mark.parametrize("name", ["", "-ana", "ana b", "a" * 129, "ana\n", "ána"])
def test_a_users_name_keeps_the_rule(name: str) -> None:
    with pytest.raises(Invalid, match=r"^The user's name must be 1 to 128 letters"):
        changes.create_user(directories.directory(), directories.user(name))


def test_a_user_is_created_once_with_a_display_name_on_one_line() -> None:
    made = changes.create_user(directories.directory(), directories.user("ana@example.com"))
    assert after(made).users["ana@example.com"] == directories.user("ana@example.com")
    with pytest.raises(Conflict, match=r"^The user una exists already.$"):
        changes.create_user(directories.directory(), directories.user("una"))
    with pytest.raises(Invalid, match=r"^The display name must be one line of at most 200 characters.$"):
        changes.create_user(directories.directory(), replace(directories.user("ana"), display_name="A\x1b[2J"))


def test_what_changed_of_a_person_is_told_and_a_password_is_not() -> None:
    before = directories.directory().users["una"]
    changed = replace(before, display_name="Una", organization_admin=True, password="a hash")
    made = changes.change_user(directories.directory(), changed)
    assert made.audited.detail == {"organizationAdmin": True, "displayName": "Una", "password": "changed"}
    assert after(made).users["una"] == changed


def test_somebody_whom_a_provider_knows_gets_no_password() -> None:
    there = arrivals.directory()
    with pytest.raises(Conflict, match=r"^una signs in through the OpenID Connect provider and has no password here.$"):
        changes.change_user(there, changes.with_password(there.users["una"], "a hash"))


def test_somebody_administers_the_organization_always() -> None:
    root = directories.directory().users["root"]
    sentence = r"^root is the only organization admin; make somebody else one first.$"
    with pytest.raises(Conflict, match=sentence):
        changes.remove_user(directories.directory(), "root")
    with pytest.raises(Conflict, match=sentence):
        changes.change_user(directories.directory(), replace(root, organization_admin=False))
    two = after(changes.change_user(directories.directory(), replace(directories.user("una"), organization_admin=True)))
    assert changes.remove_user(two, "root").removed_users == (root,)


def test_whoever_is_removed_leaves_every_membership() -> None:
    gone = changes.remove_user(directories.directory(), "una")
    detail = {"organizationAdmin": False, "roles": {"payments": "user"}}
    assert gone.audited == Audited("deleted", "User", "una", detail=detail)
    left = after(gone)
    assert "una" not in left.users
    assert left.members == {"payments": {"id-ada": Role.ADMIN, "id-vic": Role.VIEWER}}
    with pytest.raises(Missing, match=r"^There is no user una.$"):
        changes.remove_user(left, "una")


def test_there_are_only_so_many_memberships(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST_MEMBERSHIPS", 3)
    changes.set_member(directories.directory(), project="payments", name="vic", role=Role.USER)  # is one already
    with pytest.raises(Conflict, match=r"^There are 3 memberships, which is the most; end some first.$"):
        changes.set_member(directories.directory(), project="default", name="vic", role=Role.USER)


def test_a_members_role_is_set_and_ends() -> None:
    made = changes.set_member(directories.directory(), project="payments", name="vic", role=Role.USER)
    assert after(made).members["payments"]["id-vic"] is Role.USER
    new = changes.set_member(directories.directory(), project="default", name="nil", role=Role.VIEWER)
    assert after(new).members["default"] == {"id-nil": Role.VIEWER}
    told = [(one.audited.action, one.audited.detail) for one in (made, new)]
    assert told == [("configured", {"role": "user", "before": "viewer"}), ("created", {"role": "viewer"})]
    gone = changes.remove_member(directories.directory(), project="payments", name="vic")
    assert "id-vic" not in after(gone).members["payments"]
    for name in ("nil", "nobody"):
        with pytest.raises(Missing, match=f"^The user {name} is no member of the project payments.$"):
            changes.remove_member(directories.directory(), project="payments", name=name)


def test_a_key_is_created_and_revoked() -> None:
    other = directories.key(directories.text(2), identifier="K2", expires_at=directories.LATER)
    made = changes.create_key(directories.directory(KEY), other)
    assert set(after(made).keys) == {KEY.prefix, other.prefix}
    told = {
        "name": "a pipeline",
        "role": "user",
        "scopes": ["resources"],
        "expiresAt": directories.LATER,
        "personal": False,
    }
    assert made.audited == Audited("created", "Key", "K2", project="payments", detail=told)
    assert after(changes.revoke_key(directories.directory(KEY), KEY)).keys == {}


def test_a_key_is_revoked_once() -> None:
    with pytest.raises(changes.Missing, match="There is no such key"):
        changes.revoke_key(directories.directory(), KEY)


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (replace(KEY, name=""), "A key needs a name, by which people know what it is for."),
        (replace(KEY, name="a\nb"), "The name of a key must be one line of at most 200 characters."),
    ],
)
def test_a_key_that_breaks_a_rule_is_refused(key: object, sentence: str) -> None:
    with pytest.raises(Invalid) as refusal:
        changes.create_key(directories.directory(), key)  # type: ignore[arg-type]
    assert refusal.value.message == sentence


def test_two_keys_never_share_a_prefix() -> None:
    with pytest.raises(Conflict, match=r"^Another key has this prefix; try again.$"):
        changes.create_key(directories.directory(KEY), replace(KEY, id="K2"))


NOW = datetime.fromisoformat(directories.AT)


@pytest.mark.parametrize(
    ("owner", "project", "role"),
    [
        ("vic", "payments", Role.VIEWER),
        ("una", "payments", Role.VIEWER),
        ("una", None, Role.USER),
        ("ada", "payments", Role.ADMIN),
        ("root", "payments", Role.ADMIN),
        ("root", None, Role.ADMIN),
    ],
)
def test_a_person_has_keys_of_their_own_up_to_their_role(owner: str, project: str | None, role: Role) -> None:
    key = directories.key(directories.text(2), project=project, role=role, owner=owner)
    made = changes.create_key(directories.directory(), key)
    assert after(made).keys == {KEY.prefix: KEY, key.prefix: key}
    assert made.audited.detail is not None
    assert made.audited.detail["personal"] is True


@pytest.mark.parametrize(
    ("owner", "project", "role", "sentence"),
    [
        ("vic", "payments", Role.USER, "and you are not user in the project payments."),
        ("una", None, Role.ADMIN, "and you are not admin in any project."),
        ("nil", None, Role.VIEWER, "and you are not viewer in any project."),
        ("una", "default", Role.VIEWER, "and you are not viewer in the project default."),
    ],
)
def test_a_personal_key_beyond_the_role_of_its_person_is_refused(
    owner: str, project: str | None, role: Role, sentence: str
) -> None:
    key = directories.key(directories.text(2), project=project, role=role, owner=owner)
    with pytest.raises(Invalid) as refusal:
        changes.create_key(directories.directory(), key)
    assert refusal.value.message == f"A personal key has at most your own role, {sentence}"


@pytest.mark.parametrize("scope", [scope for scope in Scope if scope is not Scope.RESOURCES])
def test_only_keys_of_a_project_have_the_scopes_of_programs(scope: Scope) -> None:
    scopes = frozenset({Scope.RESOURCES, scope})
    shared = directories.key(directories.text(2), scopes=scopes)
    changes.create_key(directories.directory(), shared)
    own = directories.key(directories.text(2), scopes=scopes, owner="ada")
    with pytest.raises(Invalid) as refusal:
        changes.create_key(directories.directory(), own)
    told = "A personal key has the scope resources alone; logs, metrics, raw are for keys of a project."
    assert refusal.value.message == told


def test_nobody_has_endlessly_many_keys_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MOST_PERSONAL", 2)
    three = [directories.key(directories.text(n), identifier=f"K{n}", owner="una") for n in range(3)]
    with pytest.raises(Conflict, match=r"^You have 2 personal keys, which is the most; revoke some first.$"):
        changes.create_key(directories.directory(*three[:2]), three[2])
    theirs = directories.key(directories.text(3), identifier="K3", owner="ada")
    changes.create_key(directories.directory(*three[:2]), theirs)


def test_whoever_is_removed_takes_their_own_keys_along_and_no_others() -> None:
    own = directories.key(directories.text(2), identifier="K2", owner="una")
    other = directories.key(directories.text(3), identifier="K3", owner="ada")
    made = directories.key(directories.text(4), identifier="K4", created_by="user:una")
    gone = changes.remove_user(directories.directory(own, other, made), "una")
    assert set(after(gone, own, other, made).keys) == {other.prefix, made.prefix}
    assert gone.audited.detail == {"organizationAdmin": False, "roles": {"payments": "user"}, "keys": ["K2"]}


@pytest.mark.parametrize("password", ["", "short", "x" * 11, "x" * 257, "é" * 257])
def test_a_password_is_neither_short_nor_endless(password: str) -> None:
    with pytest.raises(Invalid, match=r"^A password has at "):
        changes.check_password(password)


@pytest.mark.parametrize("password", ["x" * 12, "correct horse battery staple", "é" * 256])
def test_whatever_else_a_password_is_made_of_is_right(password: str) -> None:
    changes.check_password(password)
