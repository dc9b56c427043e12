"""Resources as a table: which columns there are, and what stands in them."""

from itertools import groupby

from reconciler.cli import delivers, tables, words
from reconciler.cli.answers import answer_at, answer_text, place
from reconciler.cli.tables import Column
from reconciler.model.values import Value


def render_resources(resources: list[Value], *, wide: bool, colour: bool) -> str:
    """A table for each kind, in the order in which the kinds come, with an empty line between."""
    groups = [list(group) for _, group in groupby(resources, key=lambda resource: answer_text(resource, "kind"))]
    return "\n".join(tables.table_of(COLUMNS, group, wide=wide, colour=colour) for group in groups)


def source(resource: Value) -> str:
    """Who brought this version: a repository, an actor, or the product itself."""
    kind = answer_text(resource, "status", "source", "type")
    who = answer_text(resource, "status", "source", "repository" if kind == "git" else "actor")
    return f"{kind} {who}".strip()


def owner(resource: Value) -> str:
    """Where it is changed: in the repository in which it stands, or through the API."""
    drifted_from = answer_text(resource, "status", "drift", "repository")
    if drifted_from:
        return drifted_from
    source = answer_at(resource, "status", "source")
    if answer_text(source, "type") != "git":
        return answer_text(source, "type")
    return (
        answer_text(source, "repository") if answer_text(source, "path") else "api"
    )  # the path goes when a repository lets go


def commit(resource: Value) -> str:
    """The commit that changed the file; while that is not known, the head that was applied."""
    return (_changed_by(resource, "commit") or answer_text(resource, "status", "source", "commit"))[:12]


def author(resource: Value) -> str:
    """Who wrote that commit."""
    return _changed_by(resource, "author") or answer_text(resource, "status", "source", "author")


def file(resource: Value) -> str:
    """Where its repository holds it, `path:line`; the version of what drifted does not come from there."""
    return place(answer_at(resource, "status", "drift")) or place(answer_at(resource, "status", "source"))


def _changed_by(resource: Value, what: str) -> str:
    return answer_text(resource, "status", "source", "changedBy", what)


def _state(resource: Value) -> str:
    if answer_text(resource, "status", "error"):
        return "damaged"
    if answer_at(resource, "status", "incomplete"):
        return "incomplete"
    if answer_at(resource, "status", "ready") is False:
        return "not-ready"
    return "drifted" if answer_at(resource, "status", "drift") else ""


def _labels(resource: Value) -> str:
    labels = answer_at(resource, "metadata", "labels")
    return ",".join(sorted(f"{key}={value}" for key, value in labels.items())) if isinstance(labels, dict) else ""


COLUMNS = (
    Column("NAME", lambda resource: answer_text(resource, "metadata", "name"), kept=True),
    Column("TYPE", lambda resource: answer_text(resource, "spec", "type")),
    Column("VERSION", lambda resource: answer_text(resource, "metadata", "version")),
    Column("STATUS", _state, kept=True),
    Column("DELIVERS", delivers.delivers_word),
    Column("MODIFIED", lambda resource: words.moment_text(answer_text(resource, "metadata", "dateModified"))),
    Column("SOURCE", source),
    Column("OWNER", owner, wide=True),
    Column("COMMIT", commit, wide=True),
    Column("BY", author, wide=True),
    Column("FILE", file, wide=True),
    Column("ID", lambda resource: answer_text(resource, "metadata", "id"), wide=True),
    Column("DISPLAY NAME", lambda resource: answer_text(resource, "metadata", "displayName"), wide=True),
    Column("LABELS", _labels, wide=True),
)
