"""The worker's main program for one that a test changed: it is not confined, since it writes marks or imports tests."""

from reconciler.store import engines
from reconciler.worker import child, sandbox
from reconciler.worker.sandbox import Protections


def main(*granted: str) -> None:
    """Serve jobs. A store on a server has to be named, since its connections are opened first."""
    if granted and engines.is_on_server(granted[0]):
        sandbox.enter = lambda *_, **__: Protections()
        child.main(*granted)
    child.main()
