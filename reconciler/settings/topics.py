"""The base of every settings class, and how a Python name becomes the key a person writes.

The classes themselves are in `models` and `repositories`.
"""

from pydantic import BaseModel, ConfigDict

# Keys whose capitals follow the interface, not the rule.
SPELLINGS = {
    "web_url": "webURL",
    "oauth2_client_id": "oauth2ClientID",
    "oauth2_client_secret": "oauth2ClientSecret",
}


def topic_key(name: str) -> str:
    """The key in the file of an attribute: `max_body_bytes` is `maxBodyBytes`."""
    first, *rest = name.split("_")
    return SPELLINGS.get(name) or first + "".join(word.capitalize() for word in rest)


class Topic(BaseModel):
    """One section of the settings: frozen, and without room for unknown keys."""

    model_config = ConfigDict(alias_generator=topic_key, extra="forbid", frozen=True, hide_input_in_errors=True)
