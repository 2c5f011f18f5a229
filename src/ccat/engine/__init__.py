"""Engines: where units of work are computed, here, on local processes, or on a Ray cluster. Results are the same bit for bit."""

from ccat.engine.cluster import Ray
from ccat.engine.local import Local, cores, one_thread
from ccat.engine.work import Engine, WorkerError

__all__ = ["Engine", "Local", "Ray", "WorkerError", "cores", "one_thread"]
