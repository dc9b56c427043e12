"""Loading the settings, with all mistakes at once, and the part of a changed file that a reload uses.

    loaded = loading.load(config=None, environment=os.environ, overrides={"listen": "127.0.0.1:0"})

A mistake is one line: the place, the key and the allowed values; never the value itself. The rules for single values
are in `scalars`, those between the keys of a section in its class. They are pure: only the start checks if a sign-in
provider is reachable, and it only warns.
"""

import os
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import get_args

from pydantic import BaseModel, ValidationError

from reconciler.model import documents as model_documents
from reconciler.model import positions
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.model.values import Pointer, Value
from reconciler.settings import layers
from reconciler.settings.layers import Layer
from reconciler.settings.models import ENVIRONMENT_ONLY, Settings
from reconciler.settings.scalars import ALL_SOURCES, SQLITE, Mistake

SHAPES = {
    "model_type": "must be a mapping of keys",
    "tuple_type": "must be a list",
    "missing": "is required",
}


def of_shape(error: ValidationError) -> Iterator[Mistake]:
    """Return the mistakes that the settings classes refuse."""
    # A message must contain neither the input nor a link to pydantic's documentation.
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        pointer = detail["loc"]
        if detail["type"] == "extra_forbidden":
            yield pointer, _unknown(pointer)
        else:
            yield pointer, SHAPES.get(detail["type"], detail["msg"])


def _unknown(pointer: Pointer) -> str:
    topic: type[BaseModel] = Settings
    for part in pointer[:-1]:
        if isinstance(part, str):
            topic = section_at(unknown_keys(topic)[part]) or topic
    known = sorted(unknown_keys(topic))
    # Compared in lower case, because `clientId` is more similar to `oauth2ClientID` without the capitals.
    small = {key.lower(): key for key in known}
    close = get_close_matches(str(pointer[-1]).lower(), small, n=1)
    hint = f"did you mean `{small[close[0]]}`?" if close else f"the keys here are {', '.join(known)}"
    return f"is not a known key; {hint}"


def unknown_keys(topic: type[BaseModel]) -> dict[str, object]:
    """Return the allowed keys of a section, with their types."""
    fields = {field.alias or name: field.annotation for name, field in topic.model_fields.items()}
    return {key: kind for key, kind in fields.items() if key not in ENVIRONMENT_ONLY}


def section_at(annotation: object) -> type[BaseModel] | None:
    """Return the class of a nested section, or of the sections in a list; None for a plain setting."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


SYSTEM_CONFIG = Path("/etc/reconciler/config.yaml")
SYSTEM_STATE = "/var/lib/reconciler"


class SettingsError(Refused):
    """The settings are wrong. There is one line for each mistake, in the order of the file."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        self.lines = tuple(visible(line) for line in lines)
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, warnings about them, and their file."""

    settings: Settings
    warnings: tuple[str, ...]
    config: Path | None


def load(*, config: Path | None, environment: Mapping[str, str], overrides: Mapping[str, Value]) -> Loaded:
    """Load the settings. Raises SettingsError with every mistake. `overrides` has dotted keys; None: not given."""
    path = config_path(config, environment=environment)
    file = layers.computed_layer({}) if path is None else _file(path)
    written = file._replace(values={key: one for key, one in file.values.items() if key not in ENVIRONMENT_ONLY})
    given = (layers.option_layer(overrides), layers.environment_layer(environment), written)
    sources = (*given, _computed(layers.merged(one.values for one in given), environment=environment))
    merged = layers.merged(one.values for one in sources)
    settings, found = _settings(merged, context=ALL_SOURCES)
    # Values in the file are validated even if an option or a variable overrides them: it may be removed later.
    in_file: list[Mistake] = [
        ((key,), f"must not be in the file; set {layers.variable_of((key,))} in the environment")
        for key in ENVIRONMENT_ONLY & file.values.keys()
    ]
    lines = {
        *_placed(found, sources),
        *_placed([*_settings(written.values)[1], *in_file], (file,)),
    }
    if settings is None or lines:
        raise SettingsError(tuple(line for _, _, line in sorted(lines)))
    return Loaded(settings=settings, warnings=tuple(layers.environment_warnings(environment)), config=path)


def config_path(config: Path | None, *, environment: Mapping[str, str]) -> Path | None:
    """Return the file to read: that of the option, of the variable, or the system's file if it exists."""
    if config is not None:
        return config
    named = environment.get(layers.CONFIG)
    if named:
        return Path(named)
    return SYSTEM_CONFIG if SYSTEM_CONFIG.exists() else None


def default_state_dir(environment: Mapping[str, str], *, user: int) -> str:
    """Return the folder that systemd made for the unit, otherwise the system's folder for root and the XDG state folder
    for others.
    """
    made = environment.get("STATE_DIRECTORY", "").partition(":")[0]
    if Path(made).is_absolute():
        return made
    if user == 0:
        return SYSTEM_STATE
    state = environment.get("XDG_STATE_HOME", "")
    # The XDG Base Directory specification says to ignore a relative path there.
    base = Path(state) if Path(state).is_absolute() else Path(environment.get("HOME") or Path.home(), ".local/state")
    return str(base / "reconciler")


def _computed(written: Mapping[str, Value], *, environment: Mapping[str, str]) -> Layer:
    state = written.get("stateDir", default_state_dir(environment, user=os.geteuid()))
    if not isinstance(state, str) or not Path(state).is_absolute():
        return layers.computed_layer({})  # the mistake is reported elsewhere
    computed: dict[str, Value] = {"stateDir": state, "store.url": f"{SQLITE}{state.rstrip('/')}/store.db"}
    if host := layers.name_like(socket.gethostname()):
        computed["replica.name"] = host
    return layers.computed_layer(computed)


def _file(path: Path) -> Layer:
    try:
        with path.open("rb") as file:
            data = file.read(positions.FILE_LIMITS.bytes + 1)  # one byte more than the limit is enough for a refusal
    except OSError as problem:
        reason = (problem.strerror or "it cannot be read").lower()
        sentence = f"{path}: the settings file cannot be read: {reason}; name another with --config or {layers.CONFIG}"
        raise SettingsError((sentence,)) from None
    syntax = model_documents.syntax_of(path.name) or model_documents.Syntax.YAML
    try:
        documents = model_documents.read(data, syntax=syntax, limits=positions.FILE_LIMITS)
        locations = model_documents.locate(data, syntax=syntax, limits=positions.FILE_LIMITS)
    except model_documents.DocumentError as problem:
        raise SettingsError((f"{path}:{problem.line}:{problem.column}: {problem.message}",)) from None
    if len(documents) > 1:
        second = documents[1]
        raise SettingsError((f"{path}:{second.line}:{second.column}: must be the only document in the file",))
    if not documents:
        return layers.computed_layer({})
    [first] = documents
    if not isinstance(first.value, dict):
        raise SettingsError((f"{path}:{first.line}:{first.column}: must be a mapping of keys, such as `listen: ...`",))

    def place(pointer: Pointer) -> layers.Place:
        at = locations.of(first.index, pointer, at_key=True)
        return at.line, at.column, f"{path}:{at.line}:{at.column}: {layers.dotted_key(pointer)}".removesuffix(": ")

    return Layer(first.value, place)


def _settings(values: Mapping[str, Value], *, context: str | None = None) -> tuple[Settings | None, list[Mistake]]:
    try:
        return Settings.model_validate(values, context=context), []
    except ValidationError as error:
        return None, list(of_shape(error))


def _placed(found: Iterable[Mistake], sources: tuple[Layer, ...]) -> Iterator[tuple[int, int, str]]:
    for pointer, message in found:
        line, column, place = layers.nearest_layer(sources, pointer).place(pointer)
        yield line, column, f"{place}: {message}"


TAKEN_OVER = frozenset({"repositories", "log.level"})
TLS = frozenset({"tls.certFile", "tls.keyFile"})  # a reload may replace the certificate, but not switch TLS on or off


def need_restart(running: Settings, fresh: Settings) -> tuple[str, ...]:
    """Return the dotted keys whose new values need a restart, in the order of the reference. `running` are the settings
    of the start, so a pending change is reported again at each reload.
    """
    stays = (running.tls.cert_file is None) == (fresh.tls.cert_file is None)
    taken_over = TAKEN_OVER | TLS if stays else TAKEN_OVER
    return tuple(key for key in _changed(running, fresh, "") if key not in taken_over)


def check_repositories(followed: Collection[str], fresh: Settings) -> None:
    """Refuse new settings without a repository while some are `followed`: a truncated file or a lost section looks the
    same, and the API would become the owner of all resources.
    """
    if followed and not fresh.repositories:
        names = ", ".join(sorted(followed))
        raise Refused(
            f"`repositories` is empty, and {names} would be followed no more; name one, or restart the service to "
            "follow none."
        )


def _changed(running: BaseModel, fresh: BaseModel, prefix: str) -> Iterator[str]:
    for name, field in type(fresh).model_fields.items():
        old, new = getattr(running, name), getattr(fresh, name)
        key = f"{prefix}{field.alias or name}"
        if isinstance(old, BaseModel) and isinstance(new, BaseModel):
            yield from _changed(old, new, f"{key}.")
        elif old != new:
            yield key
