"""The main job: from a table to an explained classifier, as a `Results` object."""

from tamis.errors import UnknownColumn
from tamis.workflow.comparison import Comparison, compare
from tamis.workflow.explained_row import ExplainedRow, explain_row
from tamis.workflow.files import (
    check_folder,
    describe,
    evaluate_on,
    export_dataset,
    load_classifier,
    load_results,
    predicted,
    read_for,
    rounding_loss,
    scorecard,
    write,
    write_comparison,
)
from tamis.workflow.job import METHOD, Job, run
from tamis.workflow.large import is_large, run_large

__all__ = [
    "METHOD",
    "Comparison",
    "ExplainedRow",
    "Job",
    "UnknownColumn",
    "check_folder",
    "compare",
    "describe",
    "evaluate_on",
    "explain_row",
    "export_dataset",
    "is_large",
    "load_classifier",
    "load_results",
    "predicted",
    "read_for",
    "rounding_loss",
    "run",
    "run_large",
    "scorecard",
    "write",
    "write_comparison",
]
