"""Docstrings of all public names, as numpydoc wants them, and a runnable example for every estimator."""

import inspect
from importlib import import_module

import pytest

import tamis
from tamis import all_estimators

numpydoc = pytest.importorskip("numpydoc.validate")

ROOMS = ("explain", "io", "plots", "report", "results", "workflow")
LEFT = {  # what numpydoc may ask for and this library does not
    "ES01",  # more than a summary
    "EX01",  # examples for all (estimators have them, see below)
    "PR01",  # parameters of functions whose summary says all
    "PR07",  # a description below the type: where one line says both there is none
    "PR08",  # sentences in descriptions
    "PR09",
    "RT01",  # a section for what a summary says
    "RT03",
    "RT04",
    "SA01",  # see also
    "SS05",  # it takes plural nouns for verbs
}


def public():
    """{dotted name: object} of everything that users may call."""
    found = {f"tamis.{name}": getattr(tamis, name) for name in tamis.__all__}
    for room in ROOMS:
        module = import_module(f"tamis.{room}")
        found |= {f"tamis.{room}.{name}": getattr(module, name) for name in module.__all__}
    found = {name: thing for name, thing in found.items() if callable(thing)}
    for name, thing in list(found.items()):
        if inspect.isclass(thing):
            own = {f"{name}.{key}": value for key, value in vars(thing).items() if not key.startswith("_")}
            kinds = (classmethod, staticmethod, property)
            found |= {key: value for key, value in own.items() if inspect.isfunction(value) or isinstance(value, kinds)}
    return found


def test_there_is_much_to_look_at():
    assert len(public()) > 200


@pytest.mark.parametrize("name", sorted(public()))
def test_docstrings_are_well_formed(name):
    if not public()[name].__doc__:
        owner, _, method = name.rpartition(".")
        assert inspect.getdoc(getattr(public()[owner], method)), "neither it nor a base says what it does"
        return
    found = numpydoc.validate(name)
    errors = [(code, words) for code, words in found["errors"] if code not in LEFT]
    if "Parameters\n" in (found["docstring"] or ""):  # then all of them
        errors += [(code, words) for code, words in found["errors"] if code == "PR01"]
    assert not errors


@pytest.mark.parametrize("name", list(all_estimators()))
def test_every_estimator_has_an_example(name):
    assert ">>> " in all_estimators()[name].__doc__
