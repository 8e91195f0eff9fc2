"""Graph: nodes and constants of an ONNX model, one call for each operator.

Only operators of the standard domain are used. Values are known by their names; arithmetic is in one type of float.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

OPSET, IR = 18, 8
TEXT_OPSET, TEXT_IR = 19, 9  # the first that compares text
ROWS = "rows"  # the name of the dimension of rows
NOTHING = {"Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0}  # the number with which an operator does nothing


def onnx_library() -> Any:
    """The package onnx."""
    try:
        import onnx
    except ImportError:
        raise ImportError("to_onnx needs onnx: pip install 'tamis[onnx]'") from None
    return onnx


class Graph:
    """A graph that grows by calls.

    Attributes
    ----------
    inside : type of the numbers that are computed with
    outside : type of the numbers that go in and come out
    """

    def __init__(self, inside: np.dtype, outside: np.dtype, prefix: str = ""):
        self.inside, self.outside, self._prefix = np.dtype(inside), np.dtype(outside), prefix
        self._onnx = onnx_library()
        self._nodes: list[Any] = []
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}
        self._constants: dict[tuple, str] = {}
        self._tensors: list[Any] = []
        self._made: dict[tuple, str] = {}
        self._slight: dict[str, np.ndarray] = {}
        self._text = False

    # ------------------------------------------------------------------ growing

    def input(self, name: str, width: int, *, text: bool = False) -> str:
        """A table (rows, width) that is given, of numbers or of text."""
        self._text |= text
        self._inputs[name] = self._info(name, np.dtype(str) if text else self.outside, (ROWS, width))
        return name

    def output(self, name: str, value: str, dtype: np.dtype, shape: Sequence[str | int]) -> None:
        """Give a value away under a name of its own."""
        self._outputs[name] = self._info(name, dtype, shape)
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name], name=f"{name} out"))

    def constant(self, values: Any) -> str:
        """An array of a type of its own, held once."""
        array = np.asarray(values)
        text = array.dtype.kind in "UO"
        array = array.astype(object) if text else np.ascontiguousarray(array).reshape(array.shape)
        key = (array.dtype.str, array.shape, tuple(array.ravel()) if text else array.tobytes())
        if key not in self._constants:
            self._constants[key] = self._fresh(f"constant {len(self._constants)}")
            self._tensors.append(self._onnx.numpy_helper.from_array(array, self._constants[key]))
            if array.dtype == np.float64 and array.size == 1 and _is_slight(array.item()):
                self._slight[self._constants[key]] = array
        return self._constants[key]

    def number(self, values: Any) -> str:
        """An array of the type that is computed with."""
        return self.constant(np.asarray(values, dtype=self.inside))

    def op(self, kind: str, *values: str, **attributes: Any) -> str:
        """The result of an operator; equal calls are one node."""
        if kind in ("Add", "Mul") and self._seems_nothing(kind, values[0]):
            values = values[::-1]
        if kind in NOTHING and self._seems_nothing(kind, values[1]):
            return self._slightly(kind, values[0], self._slight[values[1]])
        key = (kind, values, tuple(sorted((name, str(value)) for name, value in attributes.items())))
        if key not in self._made:
            name = self._fresh(f"{kind} {len(self._nodes)}")
            self._nodes.append(self._onnx.helper.make_node(kind, list(values), [name], name=name, **attributes))
            self._made[key] = name
        return self._made[key]

    def _seems_nothing(self, kind: str, value: str) -> bool:
        """Whether a value is a constant that float32 takes for the number with which an operator does nothing."""
        return value in self._slight and np.float32(self._slight[value].item()) == NOTHING[kind]

    def _slightly(self, kind: str, value: str, constant: np.ndarray) -> str:
        """The same result by nodes that onnxruntime keeps; powers of two are exact.

        It leaves out sums with one zero and products with one one, and rounds to float32 to see which they are.
        """
        if kind in ("Add", "Sub"):
            return self.op("Sum", value, self.number(constant if kind == "Add" else -constant))
        half = self.op(kind, value, self.number(constant * (0.5 if kind == "Mul" else 2.0)))
        return self.op("Mul", half, self.number([2.0]))

    def cast(self, value: str, dtype: Any) -> str:
        """A value as another type."""
        return self.op("Cast", value, to=self._type(np.dtype(dtype)))

    def as_numbers(self, flags: str) -> str:
        """Flags as zeros and ones to compute with."""
        return self.cast(flags, self.inside)

    def columns(self, table: str, places: Sequence[int], width: int) -> str:
        """Some columns of a table of a known width."""
        if list(places) == list(range(width)):
            return table
        return self.op("Gather", table, self.constant(np.asarray(places, dtype=np.int64)), axis=1)

    def concat(self, tables: Sequence[str], axis: int = 1) -> str:
        """Tables side by side."""
        return tables[0] if len(tables) == 1 else self.op("Concat", *tables, axis=axis)

    def total(self, values: Sequence[str]) -> str:
        """The sum of values of one shape."""
        return values[0] if len(values) == 1 else self.op("Sum", *values)

    def extreme(self, kind: str, table: str) -> str:
        """The largest or smallest number of each row (rows, 1): `kind` is "Max" or "Min"."""
        return self.op(f"Reduce{kind}", table, self.constant(np.array([1])), keepdims=1)

    def mixed(self, matrix: np.ndarray, value: str) -> str:
        """The products (rows, a, p) of a matrix (a, b) and values (rows, b, p), of no rows too."""
        return self.op("Einsum", self.number(matrix), value, equation="ab,rbp->rap")

    def split_axis(self, value: str, sizes: tuple[int, int]) -> str:
        """(rows, a * b) as (rows, a, b)."""
        return self.op("Reshape", value, self.constant(np.array([0, *sizes], dtype=np.int64)))

    def tiled(self, like: str, values: np.ndarray) -> str:
        """The same numbers for every row of a table: (rows, ...)."""
        rows = self.op("Gather", self.op("Shape", like), self.constant(np.zeros(1, dtype=np.int64)), axis=0)
        shape = self.op("Concat", rows, self.constant(np.array(values.shape, dtype=np.int64)), axis=0)
        return self.op("Expand", self.number(values[None]), shape)

    def loop(
        self, most: int, shapes: Sequence[tuple[int, ...]], states: Sequence[str], body: Callable[..., Sequence[str]]
    ) -> list[str]:
        """Repeat ``body(graph, *states)``, which gives whether to go on and new states, up to `most` times.

        States are numbers of shapes (rows, *shape) and depend on nothing but themselves and constants.
        """
        inner = Graph(self.inside, self.outside, f"{self._prefix}{len(self._nodes)}: ")
        names = [inner._fresh(f"state {k}") for k in range(len(states))]
        infos = [self._info(name, self.inside, (ROWS, *shape)) for name, shape in zip(names, shapes, strict=True)]
        flag = np.dtype(bool)
        counters = [self._info(inner._fresh("turn"), np.dtype(np.int64), ()), self._info(inner._fresh("on"), flag, ())]
        goes_on, *news = body(inner, *names)
        results = [self._info(goes_on, flag, ())]
        results += [self._info(name, self.inside, (ROWS, *shape)) for name, shape in zip(news, shapes, strict=True)]
        helper, outputs = self._onnx.helper, [self._fresh(f"Loop {len(self._nodes)} {k}") for k in range(len(states))]
        graph = helper.make_graph(inner._nodes, inner._prefix, counters + infos, results, inner._tensors)
        start = [self.constant(np.array(most, dtype=np.int64)), self.constant(np.array(True))]
        self._nodes.append(helper.make_node("Loop", [*start, *states], outputs, name=outputs[0], body=graph))
        return outputs

    # ------------------------------------------------------------------ the end

    def model(self, name: str, words: str, metadata: Mapping[str, str], version: str) -> Any:
        """The checked model; what nothing uses is left out."""
        helper = self._onnx.helper
        used = set(self._outputs)
        nodes: list[Any] = []
        for node in reversed(self._nodes):
            if used.intersection(node.output):
                nodes.insert(0, node)
                used.update(node.input)
        tensors = [tensor for tensor in self._tensors if tensor.name in used]
        graph = helper.make_graph(
            nodes, name, list(self._inputs.values()), list(self._outputs.values()), tensors, doc_string=words
        )
        opset, ir = (TEXT_OPSET, TEXT_IR) if self._text else (OPSET, IR)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", opset)],
            ir_version=ir,
            producer_name="tamis",
            producer_version=version,
        )
        helper.set_model_props(model, dict(metadata))
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def _fresh(self, name: str) -> str:
        """A name that no column has, and no graph around this one."""
        name = self._prefix + name
        while name in self._inputs:
            name += "'"
        return name

    def _type(self, dtype: np.dtype) -> int:
        of = self._onnx.TensorProto
        return of.STRING if dtype.kind in "UO" else self._onnx.helper.np_dtype_to_tensor_dtype(dtype)

    def _info(self, name: str, dtype: np.dtype, shape: Sequence[str | int]) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self._type(dtype), list(shape))


def _is_slight(value: float) -> bool:
    """Whether a number is zero or one in float32 only."""
    return value not in (0.0, 1.0) and abs(value) < 2.0 and np.float32(value) in (0.0, 1.0)
