"""Parameters as fields: constructors, their order, and documentation that is inherited."""

import inspect
import warnings
from dataclasses import KW_ONLY

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from tamis import all_estimators
from tamis.shells.parameters import described, parameters

TAIL = ["class_weight", "scaling", "missing", "categorical_features", "random_state", "n_jobs", "verbose"]


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

    __module__ = "tamis.of_a_test"

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

    __module__ = "tamis.of_a_test"

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


@pytest.mark.parametrize("name", list(all_estimators()))
def test_learned_attributes_are_told_and_what_is_told_is_learned(name):
    cls = all_estimators()[name]
    told = {n for names, _ in described(cls.__doc__, "Attributes") for n in names}
    assert {"instances_", "features_", "intercept_", "history_", "status_", "n_iter_", "objective_"} <= told
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    cheap = {"cv": 2, "max_iter": 3, "calibration": None, "max_instances": 4, "bandwidths": (1.0,), "Cs": (1.0,)}
    model = cls(**{k: v for k, v in cheap.items() if k in cls().get_params()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, (X[:, 0] > 0).astype(int))
    learned = {n for n in vars(model) if n.endswith("_") and not n.startswith("_")} - {"model_", "calibrator_"}
    assert learned <= told, learned - told
