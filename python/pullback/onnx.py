"""A trained policy as an ONNX graph, in float, for runtimes of other languages and devices: Model.save("gait.onnx").

Nothing of this is imported before it is asked for; the package onnx makes the file.
"""
from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import ArgumentError, FileError, UnsupportedError

if TYPE_CHECKING:
    from .arrays import Array
    from .model import Model

_OPSET = 18
_IR = 9  # the first version of the format with all that is used
_LEAST_VARIANCE = 1e-5  # of layernorm
_PLAIN = {"-a": "Neg", "sqrt(a)": "Sqrt", "pbLog(a)": "Log", "pbExp(a)": "Exp", "pbSin(a)": "Sin", "pbCos(a)": "Cos", "pbAsin(a)": "Asin",
          "pbAcos(a)": "Acos", "fabs(a)": "Abs", "sign_of(a)": "Sign", "pbSinh(a)": "Sinh", "pbCosh(a)": "Cosh", "pbTanh(a)": "Tanh",
          "pbAsinh(a)": "Asinh", "pbAcosh(a)": "Acosh", "pbAtanh(a)": "Atanh", "pbErf(a)": "Erf",
          "a + b": "Add", "a - b": "Sub", "a * b": "Mul", "a / b": "Div", "pbPow(a, b)": "Pow", "least(a, b)": "Min", "largest(a, b)": "Max"}


def save(model: Model, path: str) -> None:
    """Write the policy of a model and its weights as the ONNX file `path`, for one decision of any number N of worlds.

    Inputs: "observation" (N, inputs), before scales; where the policy hears it, "last" (N, held), the "decision" of the call before; where it
    remembers, "memory" (N, memory); both zeros at first. Outputs: "output" (N, outputs), with scales, and "decision", "memory_next" likewise.
    Names of inputs and outputs and the seconds from one decision to the next stand in the file's metadata (observation, output, interval).
    Raises ImportError without onnx; ArgumentError: no policy, or weights that float does not have; UnsupportedError, by name; FileError.
    """
    try:
        import onnx
    except ImportError as error:
        raise ImportError("a policy as ONNX needs the package onnx: pip install 'pullback[onnx]'") from error
    layout = json.loads(model._compiled.layout(model._theta))
    graph = _Graph(onnx, layout, model._theta)
    graph.write()
    _put(graph.finish().SerializeToString(), path)


def _put(content: bytes, path: str) -> None:
    """A file that appears whole or not at all."""
    beside = f"{path}.{os.getpid()}~"
    try:
        try:
            with open(beside, "wb") as file:
                file.write(content)
            os.replace(beside, path)
        finally:
            if os.path.exists(beside):
                os.remove(beside)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror}") from error


class _Graph:
    """Nodes and constants so far; values are names, with one row for each world."""

    def __init__(self, onnx: Any, layout: dict[str, Any], theta: Array) -> None:
        self.onnx, self.layout, self.theta = onnx, layout, theta
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.next: list[str] = []  # parts of the memory after, in its order

    def put(self, operator: str, *inputs: str | float, **attributes: Any) -> str:
        """A node; numbers among its inputs become constants. Returns its value."""
        named = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        name = f"v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, named, [name], **attributes))
        return name

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        with np.errstate(over="ignore"):
            array = np.asarray(value, kind)
        if np.isnan(array).any() or not np.array_equal(np.isfinite(array), np.isfinite(np.asarray(value, float))):
            raise ArgumentError("a number of the policy is not finite in float")
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def columns(self, of: str, first: int, count: int) -> str:
        return self.put("Slice", of, *(self.constant([i], np.int64) for i in (first, first + count, 1)))

    # ---- the whole ------------------------------------------------------------------------------------------------------------------
    def write(self) -> None:
        values = [self._observed()]
        for layer in self.layout["layers"]:
            kind = getattr(self, "_" + layer["kind"], None)
            if kind is None:
                raise UnsupportedError(f"layers '{layer['kind']}' are not written as ONNX")
            values.append(kind(layer, *(values[i] for i in layer["of"])))
        self.decision = self.put("Identity", values[-1])
        scales = [o["scale"] for o in self.layout["output"]]
        self.output = self.put("Mul", self.decision, self.constant(scales))
        if self.layout["memory"]:
            self.memory = self.put("Concat", *self.next, axis=1)

    def _observed(self) -> str:
        rows = self.layout["observe"]
        inputs = self.inputs = sum("input" in r for r in rows)
        self.hears = inputs < len(rows)
        given = self.put("Concat", "observation", "last", axis=1) if self.hears else "observation"
        order = [r["input"] if "input" in r else inputs + r["last"] for r in rows]
        if order != list(range(len(order))):
            given = self.put("Gather", given, self.constant(order, np.int64), axis=1)
        return self.put("Mul", given, self.constant([r["scale"] for r in rows]))

    def finish(self) -> Any:
        helper, layout = self.onnx.helper, self.layout

        def value(name: str, width: int) -> Any:
            return helper.make_tensor_value_info(name, self.onnx.TensorProto.FLOAT, ["worlds", width])

        inputs, outputs = [value("observation", self.inputs)], [("output", self.output, len(layout["output"]))]
        if self.hears:
            inputs.append(value("last", layout["held"]))
            outputs.append(("decision", self.decision, layout["held"]))
        if layout["memory"]:
            inputs.append(value("memory", layout["memory"]))
            outputs.append(("memory_next", self.memory, layout["memory"]))
        self.nodes += [helper.make_node("Identity", [of], [name]) for name, of, _ in outputs]

        graph = helper.make_graph(self.nodes, "policy", inputs, [value(name, width) for name, _, width in outputs], self.constants)
        made = helper.make_model(graph, producer_name="pullback", ir_version=_IR, opset_imports=[helper.make_opsetid("", _OPSET)])
        helper.set_model_props(made, {"observation": json.dumps([r["name"] for r in layout["observe"] if "input" in r]),
                                      "output": json.dumps([o["name"] for o in layout["output"]]), "interval": repr(layout["interval"])})
        self.onnx.checker.check_model(made)
        return made

    # ---- parameters and memory --------------------------------------------------------------------------------------------------------
    def _slices(self, layer: dict[str, Any], *shapes: tuple[int, ...]) -> list[Array]:
        """A layer's parameters, in their order."""
        at, arrays = layer["param"], []
        for shape in shapes:
            size = int(np.prod(shape))
            arrays.append(np.reshape(self.theta[at:at + size], shape))
            at += size
        return arrays

    def _remembered(self, layer: dict[str, Any]) -> str:
        return self.columns("memory", layer["state"], layer["memory"])

    def _product(self, matrix: Array, x: str) -> str:
        return self.put("MatMul", x, self.constant(matrix.T))

    # ---- layers -------------------------------------------------------------------------------------------------------------------------
    def _dense(self, layer, x):
        weight, bias = self._slices(layer, (layer["outputs"], layer["inputs"]), (layer["outputs"],))
        return self.put("Add", self._product(weight, x), self.constant(bias))

    def _activation(self, layer, x):
        if layer["activation"] == "silu":
            return self.put("Mul", x, self.put("Sigmoid", x))
        return self.put({"relu": "Relu", "tanh": "Tanh", "elu": "Elu", "softplus": "Softplus", "sigmoid": "Sigmoid"}[layer["activation"]], x)

    def _clip(self, layer, x):
        for operator, bound in (("Max", layer["lower"]), ("Min", layer["upper"])):
            if bound is not None:
                x = self.put(operator, x, bound)
        return x

    def _scale(self, layer, x):
        return self.put("Add", self.put("Mul", x, self.constant(layer["scale"])), self.constant(layer["offset"]))

    def _normalize(self, layer, x):
        mean, deviation = self._slices(layer, (layer["inputs"],), (layer["inputs"],))
        return self.put("Div", self.put("Sub", x, self.constant(mean)), self.constant(deviation))

    def _layernorm(self, layer, x):
        """By its parts: ONNX's own operator leaves open how the variance is summed, and large inputs of small spread would lose it."""
        gain, bias = self._slices(layer, (layer["inputs"],), (layer["inputs"],))
        last = self.constant([-1], np.int64)
        rest = self.put("Sub", x, self.put("ReduceMean", x, last))
        variance = self.put("ReduceMean", self.put("Mul", rest, rest), last)
        normed = self.put("Div", rest, self.put("Sqrt", self.put("Add", variance, _LEAST_VARIANCE)))
        return self.put("Add", self.put("Mul", normed, self.constant(gain)), self.constant(bias))

    def _clock(self, layer, x):
        parts = [self.columns(x, 1, layer["inputs"] - 1)] if layer["inputs"] > 1 else []
        time = self.columns(x, 0, 1)
        for frequency in layer["frequency"]:
            # the whole turns are taken away in double
            turns = self.put("Mul", self.put("Cast", time, to=self.onnx.TensorProto.DOUBLE), self.constant(frequency, np.float64))
            turns = self.put("Cast", self.put("Sub", turns, self.put("Floor", turns)), to=self.onnx.TensorProto.FLOAT)
            angle = self.put("Mul", turns, 2 * np.pi)
            parts += [self.put("Sin", angle), self.put("Cos", angle)]
        return self.put("Concat", *parts, axis=1)

    def _gru(self, layer, x):
        n, inputs = layer["outputs"], layer["inputs"]
        weight, recurrent, bias = self._slices(layer, (3 * n, inputs), (3 * n, n), (3 * n,))
        h = self._remembered(layer)
        given = self.put("Add", self._product(weight, x), self.constant(bias))
        gates = self.put("Sigmoid", self.put("Add", self.columns(given, 0, 2 * n), self._product(recurrent[:2 * n], h)))
        r, z = self.columns(gates, 0, n), self.columns(gates, n, n)
        c = self.put("Tanh", self.put("Add", self.columns(given, 2 * n, n), self._product(recurrent[2 * n:], self.put("Mul", r, h))))
        y = self.put("Add", self.put("Mul", z, h), self.put("Mul", self.put("Sub", 1, z), c))
        self.next.append(y)
        return y

    def _delay(self, layer, x):
        n = layer["inputs"]
        longest = layer["memory"] // n
        at = min(max(float(self._slices(layer, (1,))[0][0]), 0), longest)
        newer = min(int(at), longest - 1)
        past = self._remembered(layer)
        steps = [x, *(self.columns(past, k * n, n) for k in range(longest))]  # inputs so many decisions ago
        self.next += steps[:longest]
        way = self.put("Sub", steps[newer + 1], steps[newer])
        return self.put("Add", steps[newer], self.put("Mul", way, at - newer))

    def _sum(self, layer, x, y):
        return self.put("Add", x, y)

    def _limited(self, x, limit):
        return self.put("Max", self.put("Min", x, limit), -limit) if limit else x

    def _pd(self, layer, x):
        n = layer["outputs"]
        gains = self._slices(layer, *[(n,)] * (layer["params"] // n))
        e = self.put("Sub", self.columns(x, 0, n), self.columns(x, n, n))
        out = self.put("Mul", self.constant(gains[0]), e)
        if len(gains) > 1:
            out = self.put("Sub", out, self.put("Mul", self.constant(gains[1]), self.columns(x, 2 * n, n)))
        if layer["memory"]:
            integral = self.put("Add", self._remembered(layer), self.put("Mul", layer["interval"], e))
            integral = self._limited(integral, layer["windup"])
            self.next.append(integral)
            out = self.put("Add", out, self.put("Mul", self.constant(gains[2]), integral))
        return self._limited(out, layer["limit"])

    _pid = _servo = _pd

    # ---- formulas -----------------------------------------------------------------------------------------------------------------------
    def _formula(self, layer, x):
        return self.put("Concat", *(self._one(layer, x, f) for f in layer["formula"]), axis=1)

    def _one(self, layer, x, formula):
        slot: dict[int, str] = {k: self.constant([[value]]) for k, value in enumerate(formula["constant"])}
        for at, row in formula["read"]:
            given = row < layer["inputs"]
            slot[at] = self.columns(x, row, 1) if given else self.constant([[self.theta[layer["param"] + row - layer["inputs"]]]])
        for code, to, *of in formula["code"]:
            slot[to] = self._instruction(code, *(slot[i] for i in of))
        # of constants alone it is one row, and as many as there are worlds are wanted
        return self.put("Add", slot[formula["result"]], self.put("Mul", self.columns(x, 0, 1), 0.0)) if layer["inputs"] else slot[formula["result"]]

    def _instruction(self, code, a, b="", c="", d=""):
        if code in _PLAIN:
            return self.put(_PLAIN[code], *(x for x in (a, b) if x))
        composed = getattr(self, _COMPOSED.get(code, ""), None)
        if composed is None:
            raise UnsupportedError(f"formulas with '{code}' are not written as ONNX")
        return composed(a, b, c, d)

    def _mul_add(self, a, b, c, d):
        return self.put("Add", self.put("Mul", a, b), c)

    def _mul_sub(self, a, b, c, d):
        return self.put("Sub", self.put("Mul", a, b), c)

    def _sub_mul(self, a, b, c, d):
        return self.put("Sub", c, self.put("Mul", a, b))

    def _mul_add_mul(self, a, b, c, d):
        return self.put("Add", self.put("Mul", a, b), self.put("Mul", c, d))

    def _mul_sub_mul(self, a, b, c, d):
        return self.put("Sub", self.put("Mul", a, b), self.put("Mul", c, d))

    def _less(self, a, b, c, d):
        return self.put("Cast", self.put("Less", a, b), to=self.onnx.TensorProto.FLOAT)

    def _less_equal(self, a, b, c, d):
        return self.put("Cast", self.put("LessOrEqual", a, b), to=self.onnx.TensorProto.FLOAT)

    def _choose(self, a, b, c, d):
        return self.put("Where", self.put("Greater", a, 0.0), b, c)

    def _atan2(self, y, x, c, d):
        """From the arc tangent of the smaller by the larger, which is at most 1."""
        across, up = self.put("Abs", x), self.put("Abs", y)
        larger = self.put("Max", across, up)
        angle = self.put("Atan", self.put("Div", self.put("Min", across, up), self.put("Where", self.put("Equal", larger, 0.0), 1.0, larger)))
        angle = self.put("Where", self.put("Greater", up, across), self.put("Sub", np.pi / 2, angle), angle)
        angle = self.put("Where", self.put("Less", x, 0.0), self.put("Sub", np.pi, angle), angle)
        return self.put("Where", self.put("Less", y, 0.0), self.put("Neg", angle), angle)

    def _expm1(self, a, b, c, d):
        half = self.put("Mul", a, 0.5)
        return self.put("Mul", self.put("Mul", 2.0, self.put("Sinh", half)), self.put("Exp", half))

    def _log1p(self, a, b, c, d):
        """Kahan's quotient: what rounding takes from 1 + a, it takes from its logarithm, too."""
        above = self.put("Add", 1.0, a)
        nothing = self.put("Equal", above, 1.0)
        rest = self.put("Where", nothing, 1.0, self.put("Sub", above, 1.0))
        return self.put("Where", nothing, a, self.put("Div", self.put("Mul", a, self.put("Log", above)), rest))

    def _erfc(self, a, b, c, d):
        return self.put("Sub", 1.0, self.put("Erf", a))


_COMPOSED = {"a * b + c": "_mul_add", "a * b - c": "_mul_sub", "c - a * b": "_sub_mul", "a * b + c * d": "_mul_add_mul",
             "a * b - c * d": "_mul_sub_mul", "less(a, b)": "_less", "less_equal(a, b)": "_less_equal", "choose(a, b, c)": "_choose",
             "pbAtan2(a, b)": "_atan2", "pbExpm1(a)": "_expm1", "pbLog1p(a)": "_log1p", "pbErfc(a)": "_erfc"}
