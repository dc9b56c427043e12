"""Where the secrets of all projects come from, as the settings say: one value that the rest of this package takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.secrets import allowing, directory
from reconciler.secrets.directory import SecretDirectory
from reconciler.settings.models import Settings


@dataclass(frozen=True, slots=True)
class SecretSources:
    """The service's environment as of its start, the patterns of what projects may see of it, and their files."""

    environment: Mapping[str, str] = field(repr=False)
    patterns: tuple[str, ...]
    directory: SecretDirectory

    def variables(self, project: str) -> dict[str, str]:
        """The variables that a project may refer to, with their values: neither empty ones nor what is no text."""
        names = allowing.allowed_variables(self.environment, patterns=self.patterns, project=project)
        return {name: self.environment[name] for name in sorted(names) if is_text(self.environment[name])}


def is_text(value: str) -> bool:
    """Whether a variable holds something, in UTF-8. Bytes that are none are surrogates in Python."""
    try:
        return bool(value.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def configured_sources(settings: Settings, *, environment: Mapping[str, str]) -> SecretSources:
    """The sources that the settings name. `environment` is copied."""
    folder = directory.configured_directory(
        settings.secrets.directory, state=settings.state_dir, environment=environment
    )
    return SecretSources(dict(environment), settings.secrets.env, folder)
