"""Reading the settings: options, then the environment, then the file; every mistake at once, each at its place.

loaded = loading.load(config=None, environment=os.environ, overrides={"listen": "127.0.0.1:0"})
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from reconciler.model import documents as model_documents
from reconciler.model import positions
from reconciler.model.errors import Refused
from reconciler.model.text import visible
from reconciler.model.values import Value
from reconciler.settings import environment as variables
from reconciler.settings import layers, mistakes
from reconciler.settings.layers import Layer
from reconciler.settings.mistakes import Mistake
from reconciler.settings.models import Settings

SYSTEM_CONFIG = Path("/etc/reconciler/config.yaml")
SYSTEM_STATE = "/var/lib/reconciler"


class SettingsError(Refused):
    """The settings are wrong: one line for each mistake, those of the file in its order."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        self.lines = tuple(visible(line) for line in lines)
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, what is odd about them, and the file they came from."""

    settings: Settings
    warnings: tuple[str, ...]
    config: Path | None


def load(*, config: Path | None, environment: Mapping[str, str], overrides: Mapping[str, object]) -> Loaded:
    """The settings, or SettingsError with every mistake. `overrides` has dotted keys; None is one that is not given."""
    path = config_path(config, environment=environment)
    above: tuple[Layer, ...] = (
        layers.option_layer(overrides),
        layers.Environment(variables.environment_values(environment)),
    )
    file = () if path is None else (_file(path),)
    written = (*above, *(layer.without(Settings.ENVIRONMENT_ONLY) for layer in file))
    sources = (*written, layers.Computed(_computed(written, environment=environment)))
    settings, found = _build(sources)
    # What an option or a variable hides in the file must be right all the same: tomorrow it is not hidden.
    lines = _sorted([*found, *_hidden(file)])
    if settings is None or lines:
        raise SettingsError(lines)
    return Loaded(settings=settings, warnings=tuple(variables.environment_warnings(environment)), config=path)


def config_path(config: Path | None, *, environment: Mapping[str, str]) -> Path | None:
    """The file to read: the option's, the variable's, or the system's when there is one."""
    if config is not None:
        return config
    named = environment.get(variables.CONFIG)
    if named:
        return Path(named)
    return SYSTEM_CONFIG if SYSTEM_CONFIG.exists() else None


def default_state_dir(environment: Mapping[str, str], *, user: int) -> str:
    """What systemd made for the unit, else the system's folder for root and the XDG state folder for anybody else."""
    made = environment.get("STATE_DIRECTORY", "").partition(":")[0]
    if Path(made).is_absolute():
        return made
    if user == 0:
        return SYSTEM_STATE
    state = environment.get("XDG_STATE_HOME", "")
    # The XDG Base Directory rules: a relative path there is to be ignored.
    base = Path(state) if Path(state).is_absolute() else Path(environment.get("HOME") or Path.home(), ".local/state")
    return str(base / "reconciler")


def _computed(written: tuple[Layer, ...], *, environment: Mapping[str, str]) -> dict[str, Value]:
    found = layers.find_value(written, ("stateDir",))
    state = found[1] if found else default_state_dir(environment, user=os.geteuid())
    if not isinstance(state, str) or not Path(state).is_absolute():
        return {}  # a mistake, shown as such
    return {"stateDir": state, "store": {"url": f"sqlite:///{state.rstrip('/')}/store.db"}}


def _file(path: Path) -> layers.File:
    data = _bytes(path)
    syntax = model_documents.syntax_of(path.name) or model_documents.Syntax.YAML
    try:
        documents = model_documents.read(data, syntax=syntax, limits=positions.FILE_LIMITS)
        locations = model_documents.locate(data, syntax=syntax, limits=positions.FILE_LIMITS)
    except model_documents.DocumentError as problem:
        raise SettingsError((f"{path}:{problem.line}:{problem.column}: {problem.message}",)) from None
    if not documents:
        return layers.File({}, path=str(path), index=0, locations=locations)
    first, *more = documents
    if more:
        raise SettingsError((f"{path}:{more[0].line}:{more[0].column}: must be the only document in the file",))
    if not isinstance(first.value, dict):
        raise SettingsError((f"{path}:{first.line}:{first.column}: must be a mapping of keys, such as `listen: ...`",))
    return layers.File(first.value, path=str(path), index=first.index, locations=locations)


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            # One byte more than allowed is enough for the reader to refuse it.
            return file.read(positions.FILE_LIMITS.bytes + 1)
    except OSError as problem:
        reason = (problem.strerror or "it cannot be read").lower()
        sentence = (
            f"{path}: the settings file cannot be read: {reason}; name another with --config or {variables.CONFIG}"
        )
        raise SettingsError((sentence,)) from None


def _build(sources: tuple[Layer, ...]) -> tuple[Settings | None, list[tuple[int, int, str]]]:
    settings, found = _settings(sources)
    return settings, _placed([*found, *mistakes.mistakes_between(sources)], sources)


def _hidden(file: tuple[layers.File, ...]) -> list[tuple[int, int, str]]:
    shape = _settings(tuple(layer.without(Settings.ENVIRONMENT_ONLY) for layer in file))[1]
    secrets = [
        Mistake((key,), f"must not be in the file; set {variables.variable_of((key,))} in the environment")
        for layer in file
        for key in Settings.ENVIRONMENT_ONLY & layer.values.keys()
    ]
    return _placed([*shape, *secrets], file)


def _settings(sources: tuple[Layer, ...]) -> tuple[Settings | None, list[Mistake]]:
    class Layered(Settings):
        """The settings out of exactly these sources: no .env file, no secrets folder, no variable by its own rule."""

        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *_: object, **__: object
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return tuple(_Source(settings_cls, layer.values) for layer in sources)

    try:
        layered = Layered()
        # Two loads must compare equal, and instances of two classes never do.
        return Settings.model_construct(layered.model_fields_set, **dict(layered)), []
    except ValidationError as error:
        return None, list(mistakes.of_shape(error))


class _Source(PydanticBaseSettingsSource):
    """A layer as pydantic-settings takes it."""

    def __init__(self, settings_cls: type[BaseSettings], values: dict[str, Value]) -> None:
        super().__init__(settings_cls)
        self._values = values

    def get_field_value(self, field: object, field_name: str) -> tuple[None, str, bool]:  # noqa: ARG002
        """Never asked: all values come at once."""
        return None, field_name, False

    def __call__(self) -> dict[str, Value]:
        """All values of the layer."""
        return self._values


def _placed(found: Iterable[Mistake], sources: tuple[Layer, ...]) -> list[tuple[int, int, str]]:
    lines = []
    for mistake in found:
        layer = layers.nearest_layer(sources, mistake.pointer)
        line, column, place = layer.place(mistake.pointer, at_key=True)
        lines.append((line, column, f"{place}: {mistake.message}"))
    return lines


def _sorted(lines: Iterable[tuple[int, int, str]]) -> tuple[str, ...]:
    return tuple(line for _, _, line in sorted(set(lines)))
