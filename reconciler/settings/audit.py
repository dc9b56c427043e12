"""The settings of the audit: how long it is kept."""

from pydantic import Field

from reconciler.settings.scalars import Duration
from reconciler.settings.topics import Topic


class Audit(Topic):
    """What is kept of who did what."""

    retention: Duration = Field(default=30 * 24 * 3600.0, description="How long audit events are kept.")
