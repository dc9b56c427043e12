"""`status.rendering` of a Configuration: the rendering in force, and why its present version has none. Pure."""

import msgspec

from reconciler.collectors.components import Unrenderable
from reconciler.collectors.rendering import Renderer, Rendering
from reconciler.model import values
from reconciler.model.values import Value


class RenderingFault(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reason why the present version cannot be rendered. The parameter, the type, and the template with its line
    are given if known. `template` is a place in the type, such as `logs.receivers`.
    """

    reason: str
    parameter: str = ""
    type: str = ""
    template: str = ""
    line: int = 0


class RenderingStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """`hash` belongs to the rendering in force, '' if there is none. It is that of the last version that could be
    rendered.
    """

    hash: str = ""
    fault: RenderingFault | None = None

    def encoded(self) -> bytes:
        """Return it as canonical JSON."""
        return values.canonical_json(msgspec.to_builtins(self))


_decoder = msgspec.json.Decoder(RenderingStatus)


def render(
    renderer: Renderer, spec: Value, *, said: bytes | None, is_incomplete: bool
) -> tuple[bytes | None, Rendering | None]:
    """Render a Configuration, given its masked spec. Return its `status.rendering` as JSON, and the new rendering.

    Without a new one, the rendering of the last status, `said`, stays in force, also while the Configuration is
    incomplete.
    """
    before = RenderingStatus() if said is None else _decoder.decode(said)
    if is_incomplete:
        return (RenderingStatus(before.hash).encoded() if before.hash else None), None
    try:
        made = renderer.render(spec)
    except Unrenderable as fault:
        told = RenderingFault(fault.reason, fault.parameter, fault.type_name, fault.template, fault.line)
        return RenderingStatus(before.hash, fault=told).encoded(), None
    return RenderingStatus(made.hash).encoded(), made
