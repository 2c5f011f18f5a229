"""Engines: where units of work are computed. Results are the same bit for bit on all of them.

A unit of work is a picklable argument of a function that also gets what all units have in common:

    for unit, result in Local(workers=4)(work, common, deque(units)): ...
    for unit, result in Ray("auto", gpus=0.5)(work, common, deque(units)): ...

`Local` (local.py) computes in this process or on several of this machine, `Ray` (ray.py) on a
cluster. Both follow the protocol `Engine` (work.py) and yield each result as soon as it is there.
"""

from ccat.engine.local import Here, Local, cores, one_thread, workers_kept
from ccat.engine.ray import Ray
from ccat.engine.work import Engine, WorkerError

__all__ = [
    "Engine",
    "Here",
    "Local",
    "Ray",
    "WorkerError",
    "cores",
    "one_thread",
    "workers_kept",
]
