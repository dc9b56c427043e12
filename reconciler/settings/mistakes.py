"""What is wrong with settings, one line each: the place, the key and what is allowed; never the value.

Pure. The rules of single values are in `scalars`; those between several are here.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from reconciler.model.values import Pointer, Value
from reconciler.settings import alerts, fitting, layers, provider
from reconciler.settings.addresses import listen_address
from reconciler.settings.layers import Layer
from reconciler.settings.models import Settings

SHAPES = {
    "model_type": "must be a mapping of keys",
    "model_attributes_type": "must be a mapping of keys",
    "dict_type": "must be a mapping of keys",
    "tuple_type": "must be a list",
    "missing": "is required",
}


LISTENERS = (("listen",), ("delivery", "otlpListen"))


class Mistake(NamedTuple):
    """A rule that is broken, at a key."""

    pointer: Pointer
    message: str


def of_shape(error: ValidationError) -> Iterator[Mistake]:
    """What the classes refuse."""
    # Neither the input nor a link to someone's documentation belongs in a message.
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        pointer = detail["loc"]
        if detail["type"] == "extra_forbidden":
            yield Mistake(pointer, _unknown(pointer))
        else:
            yield Mistake(pointer, SHAPES.get(detail["type"], detail["msg"]))


def mistakes_between(sources: tuple[Layer, ...]) -> Iterator[Mistake]:
    """Rules over several settings, judged on plain values so that they show beside mistakes of shape."""
    for section in ("repositories", "alerts"):
        yield from _same_names(sources, section)
    yield from _unfit(sources)
    yield from _half_a_certificate(sources)
    yield from _open_listener(sources)
    yield from _provider(sources)


def _same_names(sources: tuple[Layer, ...], section: str) -> Iterator[Mistake]:
    seen: dict[str, int] = {}
    for index, one in _items(sources, section):
        name = one.get("name")
        if isinstance(name, str) and seen.setdefault(name, index) != index:
            message = f"must be unique; {section}[{seen[name]}] has the same name"
            yield Mistake((section, index, "name"), message)


def _unfit(sources: tuple[Layer, ...]) -> Iterator[Mistake]:
    for section, mistakes in (("repositories", fitting.repository_mistakes), ("alerts", alerts.alert_mistakes)):
        for index, one in _items(sources, section):
            for pointer, message in mistakes(one):
                yield Mistake((section, index, *pointer), message)


def _items(sources: tuple[Layer, ...], section: str) -> Iterator[tuple[int, dict[str, Value]]]:
    """The mappings of a list."""
    found = layers.find_value(sources, (section,))
    for index, one in enumerate(found[1] if found and isinstance(found[1], list) else ()):
        if isinstance(one, dict):
            yield index, one


def _given(sources: tuple[Layer, ...], *pointer: str) -> bool:
    found = layers.find_value(sources, pointer)
    return found is not None and found[1] not in ("", None)


def _half_a_certificate(sources: tuple[Layer, ...]) -> Iterator[Mistake]:
    for one, other in (("certFile", "keyFile"), ("keyFile", "certFile")):
        if _given(sources, "tls", one) and not _given(sources, "tls", other):
            yield Mistake(("tls", one), f"needs tls.{other} too")


def _open_listener(sources: tuple[Layer, ...]) -> Iterator[Mistake]:
    far = [listener for listener in LISTENERS if _is_beyond_this_machine(sources, listener)]
    if not far:
        return
    auth, insecure = layers.find_value(sources, ("auth", "type")), layers.find_value(sources, ("insecure",))
    if auth is not None and auth[1] == "none":
        which = ".".join(far[0])
        yield Mistake(
            ("auth", "type"), f"must be local or oidc, since `{which}` is beyond this machine (127.0.0.1 or [::1])"
        )
    if not (insecure is not None and insecure[1] is True) and not _given(sources, "tls", "certFile"):
        message = "must be on this machine (127.0.0.1 or [::1]), unless tls has both files or `insecure: true` is set"
        yield from (Mistake(listener, message) for listener in far)


def _provider(sources: tuple[Layer, ...]) -> Iterator[Mistake]:
    kind = layers.find_value(sources, ("auth", "type"))
    if kind is None or kind[1] != "oidc":
        return
    given: dict[str, Value] = {}
    for key in (*provider.NEEDED, "scopes"):
        if (found := layers.find_value(sources, ("auth", "oidc", key))) is not None:
            given[key] = found[1]
    first = {key: layers.find_value(sources, ("auth", "oidc", "firstAdmin", key)) for key in ("claim", "value")}
    given["firstAdmin"] = {key: found[1] for key, found in first.items() if found is not None}
    for pointer, message in provider.provider_mistakes(given):
        yield Mistake(("auth", "oidc", *pointer), message)
    if (found := layers.find_value(sources, ("webURL",))) is not None and provider.is_below_a_path(found[1]):
        yield Mistake(
            ("webURL",), "must have no path where auth.type is oidc, since the pages are at the root of a host"
        )


def _is_beyond_this_machine(sources: tuple[Layer, ...], listener: tuple[str, ...]) -> bool:
    found = layers.find_value(sources, listener)
    try:
        return found is not None and found[1] not in ("", None) and not listen_address(found[1]).loopback
    except ValueError:
        return False  # a mistake of shape, shown as such


def _unknown(pointer: Pointer) -> str:
    known = sorted(unknown_keys(_class_at(pointer[:-1])))
    # By small letters: `clientId` is nearer to `oauth2ClientID` than its capitals say.
    small = {key.lower(): key for key in known}
    close = get_close_matches(str(pointer[-1]).lower(), small, n=1)
    hint = f"did you mean `{small[close[0]]}`?" if close else f"the keys here are {', '.join(known)}"
    return f"is not a known key; {hint}"


def unknown_keys(topic: type[BaseModel]) -> dict[str, object]:
    """The keys that a person may write in a section, with their types."""
    hidden = topic.ENVIRONMENT_ONLY if issubclass(topic, Settings) else frozenset()
    fields = {field.alias or name: field.annotation for name, field in topic.model_fields.items()}
    return {key: kind for key, kind in fields.items() if key not in hidden}


def _class_at(pointer: Pointer) -> type[BaseModel]:
    topic: type[BaseModel] = Settings
    for part in pointer:
        if isinstance(part, str):
            topic = section_at(unknown_keys(topic)[part]) or topic
    return topic


def section_at(annotation: object) -> type[BaseModel] | None:
    """The class of a nested section, or of the sections in a list; None for a plain setting."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
