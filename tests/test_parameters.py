"""Parameters as fields: constructors, their order, and documentation that is inherited."""

import inspect
import subprocess
import sys
import warnings
from dataclasses import KW_ONLY

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone

import tamis
from tamis import all_estimators
from tamis.base.parameters import described, parameters

TAIL = [
    *("class_weight", "scaling", "missing", "categorical_features"),
    *("random_state", "n_jobs", "memory_limit", "verbose"),
]


@parameters
class Base(BaseEstimator):
    """A base.

    Parameters
    ----------
    shared : int
        What all have.
    width : float
        How wide.

    Attributes
    ----------
    found_ : what was found
    """

    _: KW_ONLY
    shared: int = 0
    width: float = 1.0


@parameters
class Leaf(Base):
    """A leaf.

    Parameters
    ----------
    first : str
        It may go by place.
    own : tuple
    width : float
        How wide the leaf is.

    Examples
    --------
    >>> 1
    1
    """

    first: str = "a"
    _: KW_ONLY
    own: tuple = (1,)
    width: float = 2.0


def test_the_constructor_stores_what_it_is_given():
    leaf = Leaf("b", own=(3,))
    assert leaf.get_params() == {"first": "b", "own": (3,), "shared": 0, "width": 2.0}
    assert clone(leaf).first == "b" and repr(leaf) == "Leaf(first='b', own=(3,))" and leaf != Leaf("b", own=(3,))
    with pytest.raises(TypeError):
        Leaf("b", (3,))


def test_what_only_a_class_has_comes_before_what_all_have():
    assert list(inspect.signature(Leaf).parameters) == ["first", "own", "shared", "width"]


def test_documentation_is_inherited_and_defaults_come_from_the_fields():
    told = {names[0]: text for names, text in described(Leaf.__doc__, "Parameters")}
    assert told == {
        "first": 'first : str, default="a"\n    It may go by place.',
        "own": "own : tuple, default=(1,)",
        "shared": "shared : int, default=0\n    What all have.",
        "width": "width : float, default=2.0\n    How wide the leaf is.",
    }
    assert list(told) == list(inspect.signature(Leaf).parameters)
    assert described(Leaf.__doc__, "Attributes") == [(("found_",), "found_ : what was found")]
    assert Leaf.__doc__.startswith("A leaf.\n\nParameters") and Leaf.__doc__.endswith("Examples\n--------\n>>> 1\n1\n")


def test_a_parameter_without_a_word_is_refused():
    with pytest.raises(TypeError, match=r"does not describe its parameters \['odd'\]"):

        @parameters
        class Odd(Base):
            _: KW_ONLY
            odd: int = 1


@pytest.mark.parametrize("name", list(all_estimators()))
def test_shared_parameters_have_one_place_and_one_default(name):
    given = inspect.signature(all_estimators()[name]).parameters
    tail = [p for p in TAIL if p in given]
    assert list(given)[-len(tail) :] == tail and len(tail) >= len(TAIL) - 1
    assert all(p.kind is p.KEYWORD_ONLY for p in list(given.values())[-len(tail) :])
    base = inspect.signature(all_estimators()["TamisClassifier"]).parameters
    assert all(given[p].default == base[p].default for p in tail)


SOMETIMES = {  # what only some fits learn
    "path_",
    "outside_",
    "statistics_",
    "feature_importance_",
    "feature_variation_",
    "series_",
    "n_items_",
    "n_kernels_",
    "landmark_error_",
    "pool_error_",
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", list(all_estimators()))
def test_learned_attributes_are_told_and_what_is_told_is_learned(name, classes):
    cls = all_estimators()[name]
    told = {n for names, _ in described(cls.__doc__, "Attributes") for n in names}
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
    y = np.digitize(X["a"], [0.0] if classes == 2 else [-0.5, 0.5])
    cheap = {"cv": 2, "max_iter": 3, "calibration": None, "max_instances": 4, "bandwidths": (1.0,), "Cs": (1.0,)}
    model = cls(**{k: v for k, v in cheap.items() if k in cls().get_params()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    learned = {n for n in vars(model) if n.endswith("_") and not n.startswith("_")} - {"model_", "calibrator_"}
    assert learned <= told | SOMETIMES, learned - told
    assert not [n for n in told - SOMETIMES if not hasattr(model, n)]


class TestDefaults:
    def test_two_bases_that_differ_are_refused(self):
        @parameters
        class Other(Base):
            """Other.

            Parameters
            ----------
            width : float
                Another.
            """

            _: KW_ONLY
            width: float = 3.0

        @parameters
        class Plain(Base):
            """Plain."""

        with pytest.raises(TypeError, match="must give 'width' a default"):

            @parameters
            class Both(Plain, Other):
                """Both."""

    def test_a_field_without_default_is_refused(self):
        with pytest.raises(TypeError, match="must give 'odd' a default"):

            @parameters
            class Odd(Base):
                """Odd.

                Parameters
                ----------
                odd : int
                    It has none.
                """

                _: KW_ONLY
                odd: int

    def test_described_together_they_have_one_default(self):
        with pytest.raises(TypeError, match="different defaults"):

            @parameters
            class Odd(Base):
                """Odd.

                Parameters
                ----------
                one, two : int
                    Both.
                """

                _: KW_ONLY
                one: int = 1
                two: int = 2


def test_without_docstrings_it_works_too():
    words = "from tamis import TamisClassifier as T; print(T(3).fit([[0.0], [1.0], [2.0]] * 4, [0, 1, 1] * 4).classes_)"
    done = subprocess.run([sys.executable, "-OO", "-W", "ignore", "-c", words], capture_output=True, text=True)
    assert done.stdout.strip() == "[0 1]", done.stderr


def test_names_are_known_before_anything_is_loaded():
    words = "import sys, tamis; dir(tamis); assert not hasattr(tamis, 'penalty_of'); print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
    assert set(all_estimators()) <= set(tamis.__all__) <= set(dir(tamis))
    assert set(tamis._estimators()) == set(all_estimators())
