"""Copies of nested values, without recursion.

Belongs here: what walks lists and mappings of any depth. Does not: parsing, positions.
"""

from reconciler.documents.values import Value


def copied(value: Value, *, levels: int) -> Value:
    """The list or mapping as a tree of its own; None when it is nested deeper than so many levels.

    A YAML alias becomes such a copy: nobody downstream then changes two places at once, and a value's size in memory
    is what was counted.
    """
    if not isinstance(value, list | dict):
        return value
    copy = value.copy()
    todo = [(copy, 1)]
    while todo:
        target, level = todo.pop()
        if level > levels:
            return None
        if isinstance(target, dict):
            for name, item in target.items():
                if isinstance(item, list | dict):
                    target[name] = inner = item.copy()  # the name exists, so the mapping keeps its size in the loop
                    todo.append((inner, level + 1))
        else:
            for place, item in enumerate(target):
                if isinstance(item, list | dict):
                    target[place] = inner = item.copy()
                    todo.append((inner, level + 1))
    return copy


def is_over(value: Value, *, nodes: int) -> bool:
    """Whether there are more scalars, keys, lists and mappings in the value than so many."""
    counted, todo = 0, [value]
    while todo and counted <= nodes:
        one = todo.pop()
        counted += 1
        if isinstance(one, dict):
            counted += len(one)
            todo += one.values()
        elif isinstance(one, list):
            todo += one
    return counted + len(todo) > nodes
