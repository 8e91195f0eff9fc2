"""What the main job found, as data; how it is taken from a model and rows; and in words."""

from tamis.results.data import Case, Curve, Evaluation, Notes, Part, Results, ShownRows, Task

__all__ = ["Case", "Curve", "Evaluation", "Notes", "Part", "Results", "ShownRows", "Task"]
