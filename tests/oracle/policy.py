"""Policies of the C interface (include/pullback/policy.h): networks as a part of a model."""
import numpy as np

import inside

_NUMBERS = {"scale", "offset", "frequency", "parameter"}  # arrays of a layer's definition
_COUNTED = {"frequency": "frequencies", "parameter": "parameters", "formula": "formulas"}


class Network:
    """A chain of layers, each a dict of pbLayerDef's fields: {"kind": "dense", "size": 8}."""

    def __init__(self, inputs, layers, seed=0, single=False):
        l = inside.native
        self.ctx, self.ptr = l.pbContext_Create(None), l.handle()
        l.pbNetwork_Create(self.ctx, inputs, [self._layer(d) for d in layers], len(layers), seed, single, self.ptr)
        self.function = l.pbNetwork_Function(self.ptr)

    def __del__(self):
        if getattr(self, "ptr", None):
            inside.native.pbNetwork_Destroy(self.ptr)
            inside.native.pbContext_Destroy(self.ctx)
            self.ptr = None

    @staticmethod
    def _layer(stated):
        l, d = inside.native, dict(stated)
        for name, call in (("kind", l.pbLayerKind_Named), ("activation", l.pbActivation_Named)):
            if name in d:
                found = inside.native.int_()
                if not call(d[name], found):
                    raise KeyError(d[name])
                d[name] = found.value
        for name in _NUMBERS & set(d):
            d[name] = np.array(d[name], dtype=float)
        for name in set(_COUNTED) & set(stated):
            d[_COUNTED[name]] = len(stated[name])
        return l.pbLayerDef(**d)


def observe(row):
    """{"kind": "qpos", "component": [5], "scale": 20} as pbObserveDef."""
    l, d, kind = inside.native, dict(row), inside.native.int_()
    if not l.pbObserveKind_Named(d["kind"], kind):
        raise KeyError(d["kind"])
    d["kind"] = kind.value
    if "component" in d:
        d["components"] = len(d["component"])
    if "points" in d:
        d["point_count"] = len(d["points"])
    return l.pbObserveDef(**d)


def attach(model, rows, network, every=1):
    """The network into the model, which keeps it; its outputs are added to all controls."""
    l = inside.native
    d = l.pbPolicyDef(observe=[observe(r) for r in rows], observe_count=len(rows), decide=network.function, every=every)
    l.pbModel_SetPolicy(model.ptr, d)
    model.network = network
    model._sizes()
