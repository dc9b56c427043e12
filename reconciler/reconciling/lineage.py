"""Finding in the background which commits changed what a repository brought: when there is something to find.

What a run could not find in a moment, of a first read above all, is stored without lineage. The search goes on beside
the runs that follow; the reader child rests from it while anybody waits for something else. What is left to find is
asked of the store each time, so that it goes on after a restart.
"""

import logging
from pathlib import Path

from reconciler.applying import Applier
from reconciler.model import errors
from reconciler.worker.messages import Context, LineageJob

log = logging.getLogger(__name__)


class LineageSearch:
    """Of one repository. `is_due`: something may be left to find, of a former process for instance."""

    def __init__(self, applier: Applier, *, repository: str, project: str) -> None:
        self._applier = applier
        self._repository = repository
        self._project = project
        self.is_due = True

    async def explain(self, mirror: Path) -> None:
        """Search until nothing more is found. After a fault it is due again. Raises nothing."""

        def job(context: Context) -> LineageJob:
            return LineageJob(context=context, repository=self._repository, mirror=str(mirror))

        is_done = False
        try:
            while not is_done:
                self.is_due = False  # what a run leaves to find from now on is due again
                is_done = not (await self._applier.explain(job, project=self._project)).more
        except errors.ReconcilerError as fault:
            log.debug("%s: %s", self._repository, fault.message)
        except Exception:
            log.exception("The search for the lineage of %s met a fault of the program.", self._repository)
            is_done = True  # it would meet it again; the next run that leaves something to find tries anew
        finally:
            self.is_due = self.is_due or not is_done
