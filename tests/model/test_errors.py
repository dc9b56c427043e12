"""The sentences of errors, which go to logs, terminals, answers and the store."""

from reconciler.model.errors import ReconcilerError, Refused
from reconciler.settings.loading import SettingsError
from tests import hostile_text


def test_a_message_acts_on_nothing_wherever_it_goes() -> None:
    problem = Refused(f"The branch {hostile_text.TURNED}{hostile_text.CLEAR} is gone.\nPut it back.")
    assert problem.message == str(problem) == "The branch \\u202e\\x1b[2J is gone.\nPut it back."


def test_each_mistake_in_settings_is_one_line() -> None:
    problem = SettingsError((f"{hostile_text.EVERYTHING}: is wrong", "b: is wrong"))
    assert isinstance(problem, ReconcilerError)
    assert hostile_text.unseen(problem.message) == []
    assert problem.message.split("\n") == list(problem.lines)
    assert len(problem.lines) == 2
