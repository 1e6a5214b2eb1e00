"""Where the runs of a plan are executed: in this process, or each in one of its own.

An executor takes tasks, which are all that a run is and travel between processes and machines, has `work` do each of
them somewhere, and yields how they ended, in the order in which they do.
"""

from bench.run.executors.inline import Inline
from bench.run.executors.task import Executor, Task, work

__all__ = ["Executor", "Inline", "Task", "work"]
