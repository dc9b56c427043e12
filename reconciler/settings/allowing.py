"""What a setting allows, in words: how every refusal of a value reads.

No message repeats the value it refuses: it may be a secret. The types that use this are in `scalars`.
"""

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, ValidationError, ValidatorFunctionWrapHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

OURS = "settings"  # the error type of a message that is already a sentence of ours


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a setting allows, in words: the message of every mistake that has no better one of its own."""

    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The annotated type's schema, with the message replaced."""
        return core_schema.no_info_wrap_validator_function(self._judge, handler(source))

    def _judge(self, value: object, handler: ValidatorFunctionWrapHandler) -> object:
        try:
            return handler(value)
        except ValidationError as problem:
            if problem.errors(include_input=False)[0]["type"] == OURS:
                raise
            raise refusal(f"must be {self.words}") from None


def refusal(sentence: str) -> PydanticCustomError:
    """A mistake with a message of its own."""
    # A context-free template: braces are doubled, since pydantic would format them.
    return PydanticCustomError(OURS, sentence.replace("{", "{{").replace("}", "}}"))
