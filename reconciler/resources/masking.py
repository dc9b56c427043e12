"""Hiding what may be a secret in a document that broke a rule, so that an answer can repeat it.

Belongs here: documents that nobody could judge. Does not: valid resources, whose secrets `parameters` finds one by one.
"""

from reconciler.documents.values import Value
from reconciler.resources.parameters import MASK


def mask_all(value: Value) -> Value:
    """A copy in which every parameter value is masked, whatever its name, and wherever parameters stand.

    In a document without the documented shape, all below a key `parameters` or `value` may be a secret; the keys stay,
    and the names of parameters. Nesting is bounded by the readers.
    """
    if isinstance(value, dict):
        return {
            key: _mask(child) if key in ("parameters", "value") else mask_all(child) for key, child in value.items()
        }
    return [mask_all(child) for child in value] if isinstance(value, list) else value


def _mask(value: Value) -> Value:
    """Everything is hidden but keys, and the `name` and `sensitive` beside a `value`."""
    if isinstance(value, list):
        return [_mask(child) for child in value]
    if not isinstance(value, dict):
        return MASK
    kept = ("name", "sensitive") if "value" in value else ()
    return {
        key: child if key in kept and isinstance(child, str | bool) else _mask(child) for key, child in value.items()
    }
