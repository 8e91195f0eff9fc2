"""What the numbers of an explanation are called."""

from __future__ import annotations

from typing import Any

PREDICTION = "prediction"  # the output of a regressor


def decision_of(output: Any, shown: str) -> str:
    """What a decision is: a prediction, or a number whose sign speaks for the class that is `shown` so."""
    return PREDICTION if output == PREDICTION else f"decision value, above zero speaks for {shown}"


def decided(output: Any) -> str:
    """The one word for what an estimator says of a row."""
    return PREDICTION if output == PREDICTION else "decision"


def contribution_of(output: Any, shown: str) -> str:
    """What a contribution is."""
    if output == PREDICTION:
        return "contribution to the prediction"
    return f"contribution to the decision, above zero speaks for {shown}"
