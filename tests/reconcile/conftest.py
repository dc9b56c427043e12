"""Runs are tested on a daemon that follows real repositories."""

from tests.following import daemon, follow, source

__all__ = ["daemon", "follow", "source"]
