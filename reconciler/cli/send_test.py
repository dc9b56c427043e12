"""`reconciler send-test`: one made-up record to a webhook now, and what came of it."""

import click

from reconciler.cli import connecting, exits, output, queue
from reconciler.cli.answers import answer_at, answer_lines, answer_text
from reconciler.cli.sessions import Session, connected
from reconciler.model.text import visible
from reconciler.model.values import Value


@click.command("send-test")
@click.argument("destination")
@connected
@click.pass_context
def send_test(context: click.Context, session: Session, *, destination: str) -> None:
    """Send one made-up record to DESTINATION, past its queue, once.

    It ends with 0 when the record was delivered, else with 1, and says the likely cause. For admins.
    """
    with connecting.make_client(session) as client, connecting.explain_missing(queue.unknown(client, destination)):
        test = client.post("destinations", destination, "delivery", "test").get("test")
    delivered = answer_at(test, "delivered") is True
    output.line(f"{destination}: {'delivered' if delivered else 'not delivered'}{_how(test)}")
    output.write("".join(visible(line) + "\n" for line in _told_test(test)))
    context.exit(exits.OK if delivered else exits.ERROR)


def _how(test: Value) -> str:
    seconds, status = answer_at(test, "seconds"), answer_text(test, "status")
    took = f" after {seconds:.2f} s" if isinstance(seconds, int | float) else ""
    return f"; answered {status}{took}" if status else f"; no answer{took}"


def _told_test(test: Value) -> list[str]:
    """The service's sentence, then the endpoint's own words, set in."""
    message = answer_text(test, "message")
    return [*([message] if message else []), *(f"  {line}" for line in answer_lines(test, "answer"))]
