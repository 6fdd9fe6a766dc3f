"""The rows of the queue an application may read. It never writes them: verbs of the queue do."""

from queuemgr.models import FINAL, Attempt, Execution, Outcome, State
from queuemgr.reporting.filtering import statuses
from queuemgr.scheduling.retry_policies import meaning_of

__all__ = ["FINAL", "Attempt", "Execution", "Outcome", "State", "meaning_of", "statuses"]
