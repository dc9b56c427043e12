"""A change of access as one line of the log: who, what, whom, in which project.

Belongs here: the sentence, made of what the audit keeps, with no secret among it. Does not: writing the audit. It is
bounded and on one line: people choose names of keys and what they are called.
"""

import json
from collections.abc import Mapping

from reconciler.model import text as model_text
from reconciler.model.directory import Audited

LONGEST_NAME = 128  # characters
LONGEST_DETAIL = 300  # characters
DONE: Mapping[str, str] = {"created": "created", "configured": "changed", "deleted": "removed"}


def access_sentence(audited: Audited, *, actor: str) -> str:
    """What was changed, by whom."""
    where = "" if audited.kind == "Project" or not audited.project else f" of the project {_cut(audited.project)}"
    what = f"{DONE.get(audited.action, audited.action)} {audited.kind} {_cut(audited.name)}{where}"
    return f"{_cut(actor)} {what}{_detail(audited)}."


def _detail(audited: Audited) -> str:
    if not audited.detail:
        return ""
    # By which rules comes last: it is what may be cut off.
    ordered = sorted(audited.detail.items(), key=lambda item: item[0] == "by")
    told = "; ".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in ordered)
    return f" ({_cut(told, LONGEST_DETAIL)})"


def _cut(text: str, longest: int = LONGEST_NAME) -> str:
    return model_text.visible(text[:longest]) + ("…" if len(text) > longest else "")
