from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.pipeline import make_pipeline

from tamis import EM2NOLCClassifier, product
from tamis.explain import Kept
from tamis.explain.html import explanation_html, model_html

import zoo


class Cells(HTMLParser):
    """Rows of cells as text, and the tags; fails on tags that are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.tags, self.open = [], set(), []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def fitted():
    X, y = zoo.planted()
    frame = pd.DataFrame(X, columns=["a", "<script>alert(1)</script>", "c", "d", 'e"&', "f", "g", "h"])
    return EM2NOLCClassifier(4, 3, calibration=None).fit(frame, np.where(y == 1, "<yes>", "0")), frame


@pytest.fixture(scope="module")
def three():
    X, y = zoo.three_classes()
    return EM2NOLCClassifier(3, 2, calibration=None).fit(X, y), X


def ours(clf):
    return clf._repr_html_().split("<details>")[0]


# ---------------------------------------------------------------------- estimators


def test_fitted_estimator_lists_what_it_keeps_with_its_numbers(fitted):
    clf, frame = fitted
    parsed = Cells(ours(clf))
    assert not parsed.tags & {"script", "style", "link", "img"}
    rows = {row[0]: row[1:] for row in parsed.rows}
    kept = [str(frame.columns[j]) for j in clf.features_]
    assert "<script>alert(1)</script>" in kept
    for name, importance, share in zip(kept, clf.feature_importance_, clf.feature_variation_, strict=True):
        assert rows[name] == [f"{importance:+.1f}", f"{share:.1f}"]
    for name, importance in zip(clf.instance_labels_, clf.instance_importance_, strict=True):
        assert rows[str(name)][0] == f"{importance:+.1f}"
    assert f"{clf.objective_:.6g}" in ours(clf) and clf.status_.value in ours(clf)
    assert "3 of 8 features" in ours(clf) and "4 kept training cases" in ours(clf)


def test_bars_of_opposite_signs_stand_on_opposite_sides(fitted):
    importance = np.array([[60.0, -40.0]])
    kept = Kept(["up", "down"], importance, np.array([[50.0, 50.0]]))
    text = model_html("Title", "Words.", kept, Kept([], None, np.empty((1, 0))), ["b"], {"fit": "good"})
    bars = re.findall(r"margin-left:([\d.]+)%;width:([\d.]+)%", text)
    assert bars[0] == ("50.0", "50.0") and bars[2] == ("16.7", "33.3")  # shares of variation stand between
    assert "kept cases: none" in text and "fit: good" in text


def test_names_are_escaped_everywhere(fitted):
    clf, frame = fitted
    for text in (ours(clf), clf.explain(frame[:2])._repr_html_()):
        assert "<script>" not in text and "<yes>" not in text
        assert "&lt;script&gt;" in text and "&lt;yes&gt;" in text and "e&quot;&amp;" in text


def test_several_classes_have_columns_each(three):
    clf, _ = three
    parsed = Cells(ours(clf))
    assert len(parsed.rows[0]) == 1 + 2 * 3 and "share of variation % (b)" in parsed.rows[0]


def test_unfitted_estimators_show_the_diagram_of_sklearn_and_fitted_ones_both(fitted):
    assert "sk-top-container" in EM2NOLCClassifier()._repr_html_()
    assert "<details><summary>Parameters" not in EM2NOLCClassifier()._repr_html_()
    clf, _ = fitted
    assert "sk-top-container" in clf._repr_html_().split("<details>", 1)[1]
    bundle = clf._repr_mimebundle_()
    assert bundle["text/plain"] == repr(clf) and "Decides between" in bundle["text/html"]
    assert "sk-top-container" in make_pipeline(clf)._repr_html_()


def test_display_setting_of_sklearn_is_respected(fitted):
    clf, _ = fitted
    with sklearn.config_context(display="text"):
        assert not hasattr(clf, "_repr_html_")
        assert list(clf._repr_mimebundle_()) == ["text/plain"]


# ---------------------------------------------------------------------- explanations


def test_explanation_table_adds_up_line_by_line(three):
    clf, X = three
    explanation = clf.explain(X[:12])
    parsed = Cells(explanation._repr_html_())
    assert parsed.rows[0] == ["row", "output", "base value", *explanation.part_names, "= decision"]
    assert len(parsed.rows) == 1 + 10 * 3
    numbers = np.array([[float(cell) for cell in row[2:]] for row in parsed.rows[1:]])
    np.testing.assert_allclose(numbers[:, :-1].sum(axis=1), numbers[:, -1], atol=0.01)
    np.testing.assert_allclose(numbers[:, -1], clf.decision_function(X[:10]).ravel(), rtol=0.01)
    assert "the first 10 shown" in explanation._repr_html_()


def test_small_parts_are_added_up_in_one_column(cancer):
    X, y = cancer
    clf = EM2NOLCClassifier(3, 14, calibration=None).fit(X, y)
    explanation = clf.explain(X[:3])
    parsed = Cells(explanation_html(explanation, limit=2))
    assert len(parsed.rows) == 3 and len(parsed.rows[0]) == 1 + 1 + 9 + 1 and parsed.rows[0][-2] == "6 others"
    numbers = np.array([[float(cell) for cell in row[1:]] for row in parsed.rows[1:]])
    np.testing.assert_allclose(numbers[:, :-1].sum(axis=1), numbers[:, -1], atol=0.01)


def test_html_tells_when_parts_do_not_add_up(three):
    clf, X = three
    explanation = clf.explain(X[:2])
    broken = type(explanation)(**{**vars(explanation), "decision": explanation.decision + 0.5})
    assert "largest difference 0.5" in broken._repr_html_()


# ---------------------------------------------------------------------- shap


@pytest.fixture(params=["real", "stub"])
def shap(request, monkeypatch):
    if request.param == "stub":
        stub = ModuleType("shap")
        stub.Explanation = SimpleNamespace
        monkeypatch.setitem(sys.modules, "shap", stub)
        return stub
    import warnings

    with warnings.catch_warnings():  # of matplotlib and numba, about how shap uses them
        warnings.simplefilter("ignore")
        return pytest.importorskip("shap", reason="shap is not installed")


def test_shap_values_add_up_to_decisions(fitted, three, shap):
    clf, frame = fitted
    values = clf.explain(frame[:5]).to_shap(data=frame[:5])
    np.testing.assert_allclose(values.base_values + values.values.sum(axis=1), clf.decision_function(frame[:5]))
    assert list(values.feature_names) == [frame.columns[j] for j in clf.features_]
    np.testing.assert_array_equal(values.data, frame.iloc[:5, clf.features_])
    clf, X = three
    values = clf.explain(X[:5]).to_shap()
    assert values.values.shape == (5, len(clf.features_), 3) and values.data is None
    np.testing.assert_allclose(values.base_values + values.values.sum(axis=1), clf.decision_function(X[:5]))
    assert list(values.output_names) == ["a", "b", "c"]


def test_groups_are_one_shap_feature_without_a_value(cancer, shap):
    X, y = cancer
    names = list(X.columns[:2])
    clf = EM2NOLCClassifier(3, 2, kernels=product(names), calibration=None).fit(X, y)
    values = clf.explain(X[:2]).to_shap(data=X[:2])
    assert list(values.feature_names) == [" * ".join(names)] and np.isnan(values.data).all()


def test_part_values_keep_categories_and_check_shapes(fitted):
    clf, frame = fitted
    explanation = clf.explain(frame[:3])
    columns = {name: ["x", None, "z"] if k == 0 else [1, 2, 3] for k, (name,) in enumerate(explanation.parts)}
    cells = explanation.part_values(columns)
    assert cells.dtype == object and cells[:, 0].tolist() == ["x", None, "z"] and cells[2, 1] == 3
    with pytest.raises(ValueError, match=r"data has shape \(3, 8\)"):
        explanation.part_values(frame[:3].to_numpy())


def test_missing_shap_is_one_sentence(fitted, monkeypatch):
    clf, frame = fitted
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ImportError, match=r"^to_shap needs shap: pip install shap$"):
        clf.explain(frame[:1]).to_shap()


def test_plots_of_shap_take_the_explanation(fitted, three, monkeypatch):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shap = pytest.importorskip("shap", reason="shap is not installed")
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        clf, frame = fitted
        values = clf.explain(frame[:30]).to_shap(data=frame[:30])
        shap.plots.waterfall(values[0], show=False)
        shap.plots.beeswarm(values, show=False)
        clf, X = three
        values = clf.explain(X[:30]).to_shap(data=X[:30][:, clf.features_])
        shap.plots.waterfall(values[0, :, 1], show=False)
        shap.plots.beeswarm(values[:, :, "b"], show=False)
        assert plt.get_fignums()
        plt.close("all")
