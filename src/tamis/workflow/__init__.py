"""The main job: from a table to an explained classifier, as a `Results` object."""

from tamis.workflow.job import Job, describe, evaluate_on, run
from tamis.workflow.prepare import UnknownColumn

__all__ = ["Job", "UnknownColumn", "describe", "evaluate_on", "run"]
