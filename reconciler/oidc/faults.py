"""Why nobody was proved, named by who has to do something about it.

    Refused      Unfit        the operator: the provider is another one, or offers nothing that is safe
                 NotProved    the person: begin again
                 Declined     the person, or who runs the provider: it said no
    Transient    Unreachable  nobody: try again

Belongs here: the classes, and how words of the provider get into a sentence. Does not: the sentences. None of them
holds a token, a code or a secret, and none is raised with its cause, in which libraries quote what they were given.
"""

from reconciler.model import errors
from reconciler.model import text as model_text

LONGEST_QUOTE = 200  # characters
STOPPING = "The service is stopping; sign in when it runs again."


class ProviderUnreachable(errors.Transient):
    """The provider does not answer, or not as a provider does; one sentence, nothing of what it sent."""


class ProviderUnfit(errors.Refused):
    """The provider is not the one that is configured, or offers nothing that is safe: the operator must look."""


class NotProved(errors.Refused):
    """The callback proves nobody: a wrong state, a code that was used, a token that is not for us."""


class Declined(errors.Refused):
    """The provider, or the person there, said no (`access_denied` and the like, OpenID Connect Core 1.0, 3.1.2.6).

    `told` is what it says, its own description too, for the log alone: whoever made the link wrote it.
    """

    def __init__(self, message: str, *, told: str) -> None:
        super().__init__(message)
        self.told = told


def quoted(value: object) -> str:
    """A short text of the provider's for a sentence: on one line, visible, cut off."""
    text = model_text.visible(value[: LONGEST_QUOTE + 1]) if isinstance(value, str) else "no text"
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "..."
