"""Where the runs of a plan are executed: in this process, or each in one of its own.

An executor takes tasks: descriptions of runs that can be sent to other processes and machines. It has `work` do each of
them somewhere, and yields how they ended, in the order in which they end.
"""
