"""tamis beside other libraries: the same rows for all, failures as rows, one page."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import cross_val_score

from tamis import all_estimators
from tamis.workflow import Job, comparison

pytest.importorskip("jinja2", reason="the page needs jinja2")

from figures import check_figure, marks_of
from tamis.views.report import render_comparison

FAST = {"max_pairs": 1, "cv": 2}
GRIDS = {  # of methods that the options of the job are not for
    "bandwidths": (1.0,),
    "alphas": (0.01,),
    "lambda2s": (0.1, 0.4),
    "thetas": (10.0,),
    "prototype_size": 2,
    "prototype_sizes": (2, 3),
    "tol": 0.05,
    "kappas": (0.1,),
    "programs": ("amkl",),
    "pattern_weights": ("share",),
    "Cs": (1.0,),
    "calibration": 2,
}


@pytest.fixture
def table(rng):
    a, b = rng.normal(size=(2, 90))
    b[::9] = np.nan
    colour = np.array(["red", "blue", None], dtype=object)[rng.integers(3, size=90)]
    return {"a": a, "b": b, "<b>c</b>": colour, "y": np.where(a + (colour == "red") > 0.3, "</script>", "no")}


def smaller(clf):
    return clf.set_params(**{name: value for name, value in GRIDS.items() if name in clf.get_params()})


@pytest.fixture
def quick(monkeypatch):
    own = comparison._own
    monkeypatch.setattr(comparison, "_own", lambda job, data: smaller(own(job, data)))
    monkeypatch.setattr(comparison, "SVC_GRID", {"svc__C": [1.0]})
    monkeypatch.setattr(comparison.peers, "has_ebm", lambda: False)
    return Job("y", max_instances=2, max_features=2, options=FAST)


def test_every_row_is_tested_once_by_every_method(table, quick):
    found = comparison.compare(table, quick, folds=2, source="t.csv")
    names = {entry.method for entry in found.entries}
    assert names == {*all_estimators("classifier"), "SVC, tuned", "gradient boosting", "majority class"}
    assert not any(entry.failure for entry in found.entries)
    by_name = {entry.method: entry for entry in found.entries}
    expected = np.mean(cross_val_score(DummyClassifier(), np.zeros((90, 1)), table["y"], cv=2))
    assert by_name["majority class"].accuracy.value == pytest.approx(expected, abs=0.02)
    assert by_name["EM2NOLCClassifierCV"].n_cases <= 2 and by_name["SVC, tuned"].n_cases > 2
    assert by_name["gradient boosting"].n_features == by_name["SVC, tuned"].n_features == 3
    assert by_name["gradient boosting"].n_cases is None and by_name["gradient boosting"].auc.value > 0.7
    json.dumps(found.to_dict(), allow_nan=False)


def test_the_same_in_two_processes(table, quick):
    only = ("EM2NOLCClassifier", "LassoADMM", "majority class")
    one, two = (comparison.compare(table, replace(quick, n_jobs=n), 2, "t", only=only) for n in (1, 2))
    assert [entry.method for entry in one.entries] == list(only)
    for a, b in zip(one.entries, two.entries, strict=True):
        assert (a.method, a.accuracy, a.auc, a.n_features) == (b.method, b.accuracy, b.auc, b.n_features)


def test_a_failure_is_a_row(table, quick, monkeypatch):
    monkeypatch.setattr(comparison.peers, "svc", lambda nominal, **options: 1 / 0)
    found = comparison.compare(table, quick, 2, "t", only=("EM2NOLCClassifier", "SVC, tuned", "majority class"))
    failed = next(entry for entry in found.entries if entry.method == "SVC, tuned")
    assert failed.failure == "ZeroDivisionError: division by zero" and np.isnan(failed.accuracy.value)
    assert not any(entry.failure for entry in found.entries if entry is not failed)
    assert "ZeroDivisionError" in render_comparison(found.to_dict())


def test_unknown_methods_are_refused(table, quick):
    with pytest.raises(ValueError, match="without='SVM' is not among the methods: TamisClassifier"):
        comparison.compare(table, quick, without=["SVM"])


def test_a_peer_that_is_not_installed_may_be_left_out(table, quick, monkeypatch):
    monkeypatch.setattr(comparison.peers, "has_ebm", lambda: False)
    found = comparison.compare(table, quick, 2, "t", without=["EBM"], only=["majority class"])
    assert [entry.method for entry in found.entries] == ["majority class"]
    with pytest.raises(ValueError, match="only='EBM' is not among the methods"):
        comparison.compare(table, quick, only=["EBM"])


def test_the_page(table, quick):
    only = ("EM2NOLCClassifier", "AverageMKLClassifier", "SVC, tuned", "gradient boosting", "majority class")
    found = comparison.compare(table, quick, 2, "<i>t</i>.csv", only=only).to_dict()
    found["target"] = "</title><script>alert(1)</script>"
    page = render_comparison(found)
    assert len(page) < 1_000_000 and "<script>alert(1)" not in page and "<i>t</i>" not in page
    data = json.loads(page.split('id="tamis-data">')[1].split("</script>")[0])
    for figure in data["charts"].values():
        check_figure(figure)
    figure = data["charts"]["chart-n-features"]
    accuracy = {entry["method"]: entry["accuracy"]["value"] for entry in found["entries"]}
    for entry, mark in zip(figure["legend"], marks_of(figure, "dots"), strict=True):
        assert mark["y"][0] == pytest.approx(100 * accuracy[entry["name"]])
