"""Policies of the C interface through ctypes (include/pullback/policy.h): networks as a part of a model."""
import ctypes as ct

import numpy as np

import pb

_NUMBERS = {"scale", "offset", "frequency", "parameter"}  # arrays of a layer's definition
_COUNTED = {"frequency": "frequencies", "parameter": "parameters", "formula": "formulas"}


class Network:
    """A chain of layers, each a dict of pbLayerDef's fields: {"kind": "dense", "size": 8}."""

    def __init__(self, inputs, layers, seed=0, single=False):
        l = pb.lib()
        self.ctx, self.ptr, self.kept = ct.c_void_p(l.pbContext_Create(None)), ct.c_void_p(), []
        table = (l.pbLayerDef * len(layers))(*(self._layer(d) for d in layers))
        l.pbNetwork_Create(self.ctx, inputs, table, len(layers), seed, single, ct.byref(self.ptr))
        self.function = l.pbNetwork_Function(self.ptr)

    def __del__(self):
        if getattr(self, "ptr", None):
            pb.lib().pbNetwork_Destroy(self.ptr)
            pb.lib().pbContext_Destroy(self.ctx)
            self.ptr = None

    def _layer(self, stated):
        l, d = pb.lib(), dict(stated)
        for name, call in (("kind", l.pbLayerKind_Named), ("activation", l.pbActivation_Named)):
            if name in d:
                found = ct.c_int()
                if not call(d[name].encode(), ct.byref(found)):
                    raise KeyError(d[name])
                d[name] = found.value
        for name in _NUMBERS & set(d):
            self.kept.append(np.array(d[name], dtype=float))
            d[name] = pb.ptr(self.kept[-1])
        if "formula" in d:
            self.kept.append((ct.c_char_p * len(d["formula"]))(*(f.encode() for f in d["formula"])))
            d["formula"] = self.kept[-1]
        for name in set(_COUNTED) & set(stated):
            d[_COUNTED[name]] = len(stated[name])
        return l.pbLayerDef(**{k: v.encode() if isinstance(v, str) else v for k, v in d.items()})


def observe(row, kept):
    """{"kind": "qpos", "component": [5], "scale": 20} as pbObserveDef."""
    l, d, kind = pb.lib(), dict(row), ct.c_int()
    if not l.pbObserveKind_Named(d["kind"].encode(), ct.byref(kind)):
        raise KeyError(d["kind"])
    d["kind"] = kind.value
    if "component" in d:
        kept.append((ct.c_int * len(d["component"]))(*d["component"]))
        d["components"], d["component"] = len(d["component"]), kept[-1]
    if "points" in d:
        kept.append((ct.c_int * len(d["points"]))(*d["points"]))
        d["point_count"], d["points"] = len(d["points"]), kept[-1]
    return l.pbObserveDef(**{k: v.encode() if isinstance(v, str) else v for k, v in d.items()})


def attach(model, rows, network, every=1):
    """The network into the model, which keeps it; its outputs are added to all controls."""
    l, kept = pb.lib(), []
    table = (l.pbObserveDef * len(rows))(*(observe(r, kept) for r in rows))
    d = l.pbPolicyDef(observe=table, observe_count=len(rows), decide=network.function, every=every)
    l.pbModel_SetPolicy(model.ptr, ct.byref(d))
    model.network = network
    model._sizes()
