"""What the main job found, as data; how it is taken from a model and rows; and in words."""

from tamis.results.data import Case, Evaluation, Notes, Part, Results, ScoreCurve, ShownRows, Task

__all__ = ["Case", "Evaluation", "Notes", "Part", "Results", "ScoreCurve", "ShownRows", "Task"]
