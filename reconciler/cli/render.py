"""`reconciler render`: renders a Configuration in files as the YAML of a Collector, without a server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from reconciler.cli import exits, files, output
from reconciler.cli.files import API_VERSION, SourceText
from reconciler.collectors.components import Unrenderable
from reconciler.collectors.rendering import Renderer, masking
from reconciler.model import builtins, desired, documents, routes
from reconciler.model.errors import Refused
from reconciler.model.names import Key
from reconciler.model.routes import RunsOn
from reconciler.model.secret_references import DEFAULT_PATTERNS, AvailableSecrets, secrets_elsewhere
from reconciler.model.values import Value

KIND: Final = "Configuration"


@click.command()
@click.argument("name", metavar="CONFIGURATION")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(exists=True, allow_dash=True))
@click.option(
    "-o", "--output", "target", type=click.Path(path_type=Path), help="The file to write; else to the screen."
)
@click.option("--config", type=click.Path(path_type=Path), help="A settings file, whose `secrets.env` counts.")
@click.option("--project", default="default", help="The project that gets the resources.", show_default=True)
@click.pass_context
def render(
    context: click.Context,
    *,
    name: str,
    paths: tuple[str, ...],
    target: Path | None,
    config: Path | None,
    project: str,
) -> None:
    """Print the YAML that a Collector runs for a Configuration, without a server.

    The Configuration and the resources that it names are in the files and folders; by default in this folder. Built-in
    types need no file. A Configuration with `raw` is printed as it is. Ends with 3 if the Configuration cannot be
    rendered.
    """
    held = _resources(paths or (".",))
    key = Key(KIND, name)
    if key not in held:
        raise Refused(f"no file holds the {KIND} {name}")
    spec = held[key]["spec"]
    raw = spec.get("raw") if isinstance(spec, dict) else None
    if isinstance(raw, str):
        text = raw.encode()
    else:
        try:
            masked = masking(lambda wanted: held[wanted]["spec"] if wanted in held else None)
            rendered = Renderer(masked, secrets=_secrets(config, project)).render(masked(key))
        except Unrenderable as fault:
            output.error(f"{KIND} {name}: {fault.reason}")
            context.exit(exits.NOT_STORED)
        text = rendered.text
        verdict = routes.route_verdict(
            name, spec, ready=True, known=lambda one: routes.component_use(held[one]["spec"]) if one in held else None
        )
        in_service = [f"{KIND} {name} runs in the service, and not on collectors"]
        for sentence in verdict.left_out if verdict.runs_on is RunsOn.COLLECTORS else in_service:
            output.note(sentence)
    if target is None:
        output.write(text.decode())
    else:
        target.write_bytes(text)


def _secrets(config: Path | None, project: str) -> AvailableSecrets:
    """Return the names of variables that are for the service. Raises SettingsError."""
    if config is None:
        return secrets_elsewhere(DEFAULT_PATTERNS, project)
    from reconciler.cli import entries  # noqa: PLC0415 - settings take a while to import

    return secrets_elsewhere(entries.load_settings(config).secrets.env, project)


def _resources(paths: Sequence[str]) -> dict[Key, dict[str, Value]]:
    """Read the resources of the files by key, with the built-in ones. Raises Refused for one that is not valid."""
    held = dict(builtins.built_in())
    for file in files.read_texts(tuple(paths)):
        if not isinstance(file, SourceText):
            raise Refused(f"{file.path}: {file.message}")
        try:
            found = file.documents()
        except documents.DocumentError as problem:
            raise Refused(f"{file.path}:{problem.line}:{problem.column}: {problem.message}") from None
        for document in found:
            if not files.is_resource(document.value, api_versions=frozenset({API_VERSION})):
                continue
            judged = desired.judge(document.value, api_versions=frozenset({API_VERSION}))
            if judged.key is None or judged.owned is None:
                place = f"{file.path}:{document.line}:{document.column}"
                raise Refused(f"{place}: this document is not valid; `reconciler validate` says why")
            held[judged.key] = judged.owned
    return held
