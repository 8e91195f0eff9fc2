"""Parameters of estimators as fields of dataclasses, and documentation that is inherited entry by entry.

A parameter is declared, given its default and described once, in the class that all estimators with that parameter
derive from::

    @parameters
    class KernelEstimator(BaseEstimator):
        '''...

        Parameters
        ----------
        n_jobs : int or None
            Processes for the folds.
        '''

        _: KW_ONLY
        n_jobs: int | None = None

`parameters` makes the constructor, which stores what it is given as scikit-learn wants it, and completes the
documentation of the class: entries of sections "Parameters" and "Attributes" that it lacks come from its bases, and
defaults from the fields. In signature and documentation come first those that may go by place, then those that only
this class has, and last those that all have.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from inspect import Parameter, Signature, cleandoc, get_annotations, signature
from typing import Any, TypeVar, dataclass_transform

C = TypeVar("C")
SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)
Entry = tuple[tuple[str, ...], str]  # names, and the text with them


@dataclass_transform(eq_default=False)
def parameters(cls: type[C]) -> type[C]:
    """Class decorator: the fields of the class, and those of its bases, are its parameters."""
    written = cls.__dict__.get("__doc__")
    made: Any = dataclass(eq=False, repr=False)(cls)
    for field in fields(made):
        if field.init and (field.default is MISSING or field.default is not getattr(made, field.name)):
            raise TypeError(f"{cls.__name__} must give {field.name!r} a default: it has none, or two bases differ")
    made._written = written  # the entries of its own, for the classes that derive from it
    made.__init__.__signature__ = _ordered(made)
    if sys.flags.optimize < 2:  # else there are no docstrings
        made.__doc__ = _completed(made)
    return made


def described(doc: str | None, section: str) -> list[Entry]:
    """The entries of a section of a docstring: names, and lines of text that begin with them."""
    parts = SECTION.split(cleandoc(doc or ""))
    text = dict(zip(parts[1::2], parts[2::2], strict=True)).get(section, "")
    blocks = re.split(r"\n(?=\S)", text.strip("\n"))
    return [(tuple(re.split(r", *", block.partition(" :")[0])), block.rstrip()) for block in blocks if block]


def _completed(cls: type) -> str:
    """The documentation of a class with the entries of its bases and the defaults of its parameters."""
    parts = SECTION.split(cleandoc(cls.__doc__ or ""))
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    defaults = {p.name: p.default for p in signature(cls).parameters.values()}
    told = {name: entry for entry in _inherited(cls, "Parameters") for name in entry[0]}
    untold = [name for name in defaults if name not in told]
    if untold:
        raise TypeError(f"{cls.__name__} does not describe its parameters {untold}, nor do its bases")
    found = dict.fromkeys(told[name] for name in defaults)
    sections["Parameters"] = "\n".join(_with_default(entry, defaults) for entry in found) + "\n\n"
    sections["Attributes"] = "\n".join(text for _, text in _inherited(cls, "Attributes")) + "\n\n"
    order = ["Parameters", "Attributes", *(name for name in sections if name not in ("Parameters", "Attributes"))]
    whole = [f"{name}\n{'-' * len(name)}\n{sections[name].strip(chr(10))}" for name in order if sections[name].strip()]
    return "\n\n".join([parts[0].rstrip(), *whole]) + "\n"


def _inherited(cls: type, section: str) -> Iterator[Entry]:
    """The entries of a class, then those of its bases that tell of something else."""
    known: set[str] = set()
    for base in cls.__mro__:
        own = described(base.__dict__.get("_written", base.__dict__.get("__doc__")), section)
        fresh = [entry for entry in own if not known.intersection(entry[0])]
        known.update(name for names, _ in fresh for name in names)
        yield from fresh


def _ordered(cls: Any) -> Signature:
    """The signature of the constructor; parameters that go by name alone follow the classes that declare them first."""
    places = {
        name: (depth, place)
        for depth, base in enumerate(cls.__mro__)
        for place, name in enumerate(get_annotations(base))
    }
    given = signature(cls.__init__).parameters.values()
    bound = [p for p in given if p.kind is not Parameter.KEYWORD_ONLY]
    free = [p for p in given if p.kind is Parameter.KEYWORD_ONLY]
    return Signature([*bound, *sorted(free, key=lambda p: places[p.name])])


def _with_default(entry: Entry, defaults: dict[str, Any]) -> str:
    """The text of a parameter, its default behind its type."""
    names, text = entry
    head, line, rest = text.partition("\n")
    if any(defaults[name] != defaults[names[0]] for name in names):
        raise TypeError(f"the parameters {names} are described together, and have different defaults")
    if ", default=" in head:
        return text
    return f"{head}, default={_shown(defaults[names[0]])}{line}{rest}"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))}{',' if len(value) == 1 else ''})"
    return f'"{value}"' if isinstance(value, str) else repr(value)
