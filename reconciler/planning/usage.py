"""What is in use: a resource stays as long as one that stays refers to it. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from reconciler.model.names import Key

References: TypeAlias = Mapping[Key, Collection[Key]]
"""What refers to each key: to those that matter at least."""


def resources_in_use(leaving: Iterable[Key], references: References) -> dict[Key, tuple[Key, ...]]:
    """Of what is to leave, what cannot, and the resources that refer to it and stay, in order.

    A resource that refers to itself alone does not keep itself; two that refer to each other may leave together.
    """
    going = set(leaving)
    kept: dict[Key, tuple[Key, ...]] = {}
    uses: dict[Key, list[Key]] = defaultdict(list)  # of what leaves, what else of that it refers to
    for target in going:
        for user in references.get(target, ()):
            uses[user].append(target)
    unsettled = [target for user, targets in uses.items() if user not in going for target in targets]
    while unsettled:
        target = unsettled.pop()
        if target in going:
            going.remove(target)
            unsettled += uses.get(target, ())
            kept[target] = ()
    return {target: tuple(sorted(set(references[target]) - going - {target})) for target in sorted(kept)}
