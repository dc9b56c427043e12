"""The option `-o`: table, YAML or JSON, and a wide table where the other leaves something out."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def _option(*forms: str) -> Callable[[F], F]:
    return click.option("-o", "--output", "form", type=click.Choice(forms), default="table", help="How to show them.")


form_option = _option("table", "yaml", "json")
wide_form_option = _option("table", "wide", "yaml", "json")
