"""The rows of the queue that an application may read, and never writes.

`Execution` and `Attempt` are Django models; `State` and `Outcome` are what their columns hold, and `FINAL`
the states in which an execution has ended.
`statuses()` maps each status an operator sees to its condition on executions; `meaning_of(kind)` says
what an error kind means.
"""

from queuemgr.models import FINAL, Attempt, Execution, Outcome, State
from queuemgr.reporting.filtering import statuses
from queuemgr.scheduling.retry_policies import meaning_of

__all__ = ["FINAL", "Attempt", "Execution", "Outcome", "State", "meaning_of", "statuses"]
