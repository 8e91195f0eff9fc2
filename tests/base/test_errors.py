"""Warnings point at the line that called into the package."""

import warnings

import numpy as np
import pytest

from tamis import AverageMKLClassifier, EM2NOLCClassifier, TamisRegressor
from tamis.errors import warn


@pytest.mark.parametrize("make", [TamisRegressor, EM2NOLCClassifier, AverageMKLClassifier])
def test_a_warning_points_out_of_the_package(make):
    X, y = np.zeros((12, 2)), np.tile([0, 1], 6)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        make().fit(X, y)
    assert seen and all(w.filename == __file__ for w in seen)


def test_called_from_outside_it_points_at_the_caller():
    with pytest.warns(RuntimeWarning, match="so it is") as seen:
        warn("so it is", RuntimeWarning)
    assert seen[0].filename == __file__


def test_a_module_whose_name_only_begins_alike_is_outside(tmp_path):
    scope = {"__name__": "tamis_study", "warn": warn}
    source = compile("warn('here')", str(tmp_path / "study.py"), "exec")
    with pytest.warns(UserWarning, match="here") as seen:
        exec(source, scope)
    assert seen[0].filename == str(tmp_path / "study.py")
