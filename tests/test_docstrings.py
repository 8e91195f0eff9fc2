"""Docstrings of all public names follow numpydoc, and every estimator has an example."""

import inspect
from importlib import import_module

import pytest

import tamis
from tamis import all_estimators

numpydoc = pytest.importorskip("numpydoc.validate")

MODULES = ("explain", "io", "results", "views.plots", "views.report", "workflow")
IGNORED = {  # checks of numpydoc that this library does not follow
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
    """Return {dotted name: object} of everything that users may call."""
    found = {f"tamis.{name}": getattr(tamis, name) for name in tamis.__all__}
    for name in MODULES:
        module = import_module(f"tamis.{name}")
        found |= {f"tamis.{name}.{key}": getattr(module, key) for key in module.__all__}
    found = {name: thing for name, thing in found.items() if callable(thing)}
    for name, thing in list(found.items()):
        if inspect.isclass(thing):
            own = {f"{name}.{key}": value for key, value in vars(thing).items() if not key.startswith("_")}
            kinds = (classmethod, staticmethod, property)
            found |= {key: value for key, value in own.items() if inspect.isfunction(value) or isinstance(value, kinds)}
    return found


def test_public_names_are_found():
    assert len(public()) > 200


@pytest.mark.parametrize("name", sorted(public()))
def test_docstrings_are_well_formed(name):
    if not public()[name].__doc__:
        owner, _, method = name.rpartition(".")
        assert inspect.getdoc(getattr(public()[owner], method)), "no docstring, here or in a base class"
        return
    found = numpydoc.validate(name)
    errors = [(code, text) for code, text in found["errors"] if code not in IGNORED]
    if "Parameters\n" in (found["docstring"] or ""):  # then all of them
        errors += [(code, text) for code, text in found["errors"] if code == "PR01"]
    assert not errors


@pytest.mark.parametrize("name", list(all_estimators()))
def test_every_estimator_has_an_example(name):
    assert ">>> " in all_estimators()[name].__doc__
