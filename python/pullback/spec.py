"""Specs: worlds that are edited, element by element, and compiled into models. What kinds and fields there are is the library's own table
(pullback/edit.h); spec.pyi, which tools/spec_types.py writes, says the same to type checkers."""
from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping

import numpy as np

from . import _core
from .arrays import path_of, paths_of, real, refuse_mujoco, words
from .errors import ArgumentError
from .model import _INERTIA, _MISSING, Model, _compile, _each
from .published import expanded, private, unpacked, write_below

_BOOL, _INT, _REAL, _LETTERS, _TEXT, _REALS, _INTS, _PATH, _ENTRIES, _PAIRS = range(10)
_TYPES = {"b": "truth values", "c": "complex numbers", "U": "text", "S": "text", "O": "objects of unequal kind or length"}
_TURNS = {"axisangle": 4, "xyaxes": 6, "zaxis": 3, "euler": 3}  # other ways to give an orientation, with their numbers
_PAIRS_NAME = "attributes"


def _named(member):
    """Its name here: what belongs to the element's own pose stands alone."""
    return member.removeprefix("pose.").replace(".", "_")


class FieldArray(np.ndarray):
    """Numbers of a field. What is written into them goes into the spec; numpy's other ways to change an array are refused, and arithmetic gives
    plain arrays."""

    _at = None

    def __new__(cls, values, element, field):
        self = values.view(cls)
        self.flags.writeable = False
        self._at = element, field
        return self

    def __setitem__(self, index, value):
        if self._at is None:
            np.asarray(self).__setitem__(index, value)  # a part, or a copy
            return
        element, field = self._at
        numbers = self._now()
        try:
            numbers[index] = np.nan if value is None else real(value, field.name, finite=False)
        except (TypeError, ValueError) as e:
            text = str(e) if str(e).startswith(f"{field.name}:") else f"{field.name}: {e}"
            raise ArgumentError(f"{element._called}: {text}") from None
        field.__set__(element, numbers)
        self.flags.writeable = True
        np.ndarray.__setitem__(self, ..., numbers)
        self.flags.writeable = False

    def _now(self):
        """What the field holds, which may be newer than this array."""
        element, field = self._at
        numbers = np.array(field.__get__(element), dtype=np.float64)  # so that a fraction in integers is seen
        if numbers.shape != self.shape:
            raise ArgumentError(f"{element._called}: {field.name}: it has shape {words(numbers.shape)} by now, this array {words(self.shape)}: read it again")
        return numbers

    def _changed(self, operation, other):
        self[...] = operation(np.array(self) if self._at is None else self._now(), other)
        return self

    def __iadd__(self, other):
        return self._changed(np.add, other)

    def __isub__(self, other):
        return self._changed(np.subtract, other)

    def __imul__(self, other):
        return self._changed(np.multiply, other)

    def __itruediv__(self, other):
        return self._changed(np.divide, other)

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return array[()] if return_scalar else np.asarray(array)


class Field:
    """A field of a kind of elements, as the library describes it: type and shape, words, unit, meaning."""

    def __init__(self, kind, index, row):
        self.kind, self.index = kind, index
        self.member, self.type, self.count, spelled, self.refers, self.optional, self.unit, self.meaning, self.least = row
        self.name = _PAIRS_NAME if self.type == _PAIRS else _named(self.member)
        self.words = self._read_words(spelled) if spelled else None
        self.__doc__ = f"{self.shape}{' ' + self.unit if self.unit else ''}: {self.meaning}"

    @staticmethod
    def _read_words(spelled):
        """Values by word, as the library spells them: "hinge" or "hinge=3"."""
        pairs = [word.partition("=") for word in spelled.split()]
        return {word: int(value) if value else k for k, (word, _, value) in enumerate(pairs)}

    @property
    def shape(self):
        """What it holds, in words."""
        if self.words:
            return "false, true or auto" if self._tristate else ", ".join(self.words) if len(self.words) < 12 else "a word"
        if self.refers >= 0:
            return KINDS[self.refers].title()
        plain = {_BOOL: "truth value", _TEXT: "text", _LETTERS: f"{self.count - 1} letters", _REALS: "(n,)", _INTS: "(n,) of integers", _PAIRS: "texts by name",
                 _PATH: "list of stations", _ENTRIES: "list of entries"}
        return plain.get(self.type) or (("number" if self.type == _REAL else "integer") if self.count == 1 else
                                        f"({self.count},)" + (" of integers" if self.type == _INT else ""))

    @property
    def _tristate(self):
        return list(self.words) == ["false", "true", "auto"]

    # ---- reading
    def __get__(self, element, owner=None):
        if element is None:
            return self
        value = element._spec_core.get(self.kind, element._key, self.index)
        if self.words or self.refers >= 0 or self.type in (_PATH, _ENTRIES, _PAIRS):
            return self._shown(value, element)
        if isinstance(value, bytes):
            return FieldArray(np.frombuffer(value, dtype=np.intc if self.type in (_INT, _INTS) else np.float64).copy(), element, self)
        return value

    def _shown(self, value, element=None):
        """A value of the library as it is here."""
        if self.words:
            word = next((w for w, number in self.words.items() if number == value), value)
            return {"false": False, "true": True}.get(word, word) if self._tristate else word
        if self.refers >= 0:
            key = element._spec_core.key(self.refers, value) if value >= 0 else None
            return None if key is None else element.spec._element(self.refers, key)
        if self.type == _PAIRS:
            return dict(value)
        return [{f.name: f._shown(v) if f.words else v for f, v in zip(_PARTS[self.type], row)} for row in value]

    # ---- writing
    def __set__(self, element, value):
        try:
            element._spec_core.set(self.kind, element._key, self.index, self._given(value, element))
        except (TypeError, ValueError, OverflowError) as e:
            text = str(e) if str(e).startswith(f"{self.name}:") else f"{self.name}: {e}"
            raise ArgumentError(f"{element._called}: {text}") from None
        turn = self.name.removesuffix("quat") + "alt"
        if self.name.endswith("quat") and turn in element._fields:  # which counts where nothing else is given
            element._fields[turn].__set__(element, "none")

    def _given(self, value, element=None):
        """A value as the library takes it; ArgumentError and TypeError with the reason."""
        if self.words:
            return self._word(value)
        if self.refers >= 0:
            return self._id(value, element)
        if self.type in (_PATH, _ENTRIES):
            return [self._part(row) for row in self._listed(value)]
        if self.type == _PAIRS:
            if not isinstance(value, Mapping) or not all(isinstance(t, str) for pair in value.items() for t in pair):
                raise ArgumentError("expected a dict of texts by name")
            return list(value.items())
        if self.type in (_TEXT, _LETTERS):
            if not isinstance(value, (str, os.PathLike)) and value is not None:
                raise ArgumentError(f"expected a text, found {value!r}")
            return "" if value is None else os.fspath(value)
        if self.type == _BOOL:
            if not isinstance(value, (bool, np.bool_)):
                raise ArgumentError(f"expected True or False, found {value!r}")
            return bool(value)
        return self._numbers(value)

    def _word(self, value):
        word = {False: "false", True: "true"}.get(value, value) if self._tristate and isinstance(value, (bool, np.bool_)) else value
        if not isinstance(word, str) or word not in self.words:
            near = difflib.get_close_matches(str(value), self.words, 1)
            there = ", ".join(self.words) if len(self.words) < 20 else f"one of {len(self.words)} words"
            raise ArgumentError(f"expected {there}, found {value!r}" + (f"; did you mean '{near[0]}'?" if near else ""))
        return self.words[word]

    def _id(self, value, element):
        if value is None and self.name in ("frame", "inertial_frame") or value is None and KINDS[self.refers] == element.kind != "body":
            return -1
        if not isinstance(value, Element) or value._kind != self.refers:
            raise ArgumentError(f"expected a {KINDS[self.refers]} of this spec, found {value!r}")
        if value.spec is not element.spec:
            raise ArgumentError(f"expected a {KINDS[self.refers]} of this spec, found one of another")
        number = value._spec_core.number(self.refers, value._key)
        if number < 0:
            raise ArgumentError(f"the {KINDS[self.refers]} was removed")
        return number

    def _listed(self, value):
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise ArgumentError(f"expected a list of dicts, found {value!r}")
        return value

    def _part(self, row):
        parts = {f.name: f for f in _PARTS[self.type]}
        if not isinstance(row, Mapping):
            raise ArgumentError(f"expected dicts with some of {', '.join(parts)}, found {row!r}")
        for name in row:
            if name not in parts:
                raise ArgumentError(f"'{name}' is none of {', '.join(parts)}")
        return tuple(f._given(row.get(f.name, "" if f.type == _TEXT else next(iter(f.words)) if f.words else 0.)) for f in parts.values())

    def _numbers(self, value):
        whole, alone = self.type in (_INT, _INTS), self.count == 1
        if value is None and self.optional:
            return np.nan if alone else np.full(self.count, np.nan)
        a = real(value, self.name, finite=not self.optional)
        if np.isinf(a).any():
            raise ArgumentError("expected finite numbers, found infinite ones")
        if (a < self.least).any():
            raise ArgumentError(f"expected {self.least:g} or more, found {float(a.min()):g}")
        expected = () if alone else (self.count,) if self.count else (a.size,)
        if a.shape != expected:
            found = words(a.shape) if a.ndim else "a number"
            raise ArgumentError(f"expected {'a number' if alone else f'shape {words(expected)}' if self.count else 'one axis'}, found {found}")
        if not whole:
            return float(a) if alone else a
        if (a != np.round(a)).any() or (np.abs(a) > 2**31 - 1).any():
            raise ArgumentError(f"expected whole numbers, found {value!r}")
        return int(a) if alone else a.astype(np.intc)


class Turn:
    """An orientation given in another way than by a quaternion: writing it makes it count, reading it is None where another one counts."""

    def __init__(self, word, prefix):
        self.word, self.count, self.prefix = word, _TURNS[word], prefix
        self.__doc__ = f"({self.count},): the orientation as {word}, angles as compiler.degree; None where it is given in another way"

    def __get__(self, element, owner=None):
        if element is None:
            return self
        fields = element._fields
        if fields[f"{self.prefix}alt"].__get__(element) != self.word:
            return None
        value = np.array(fields[f"{self.prefix}value"].__get__(element)[:self.count])
        value.flags.writeable = False
        return value

    def __set__(self, element, value):
        name = self.prefix + self.word
        try:
            a = real(value, name)
        except (TypeError, ValueError) as e:
            raise ArgumentError(f"{element._called}: {e}") from None
        if a.shape != (self.count,):
            raise ArgumentError(f"{element._called}: {name}: expected shape {words((self.count,))}, found {words(a.shape)}")
        element._fields[f"{self.prefix}value"].__set__(element, np.concatenate([a, np.zeros(6 - self.count)]))
        element._fields[f"{self.prefix}alt"].__set__(element, self.word)


class Record:
    """Fields by name: an element of a spec, or settings of one."""

    _fields = {}
    kind = ""

    def __init__(self, spec, key):
        object.__setattr__(self, "_spec", spec)
        object.__setattr__(self, "_key", key)

    @property
    def spec(self):
        """The spec that it belongs to."""
        return self._spec

    @property
    def _spec_core(self):
        return self._spec._core

    @property
    def _called(self):
        """Kind, name and place in the file, in messages."""
        place, number = self._spec_core.place(self._kind, self._key), self._spec_core.number(self._kind, self._key)
        name = getattr(self, "name", "")
        which = f" '{name}'" if name else f" {number}" if self.kind in _LISTS else ""
        return self.kind + which + (f" ({place})" if place else "")

    def __setattr__(self, name, value):
        if name not in type(self)._settable:
            raise AttributeError(_unknown(self.kind, name, type(self)._settable))
        object.__setattr__(self, name, value)

    def __eq__(self, other):
        return isinstance(other, Record) and other._spec is self._spec and (other._kind, other._key) == (self._kind, self._key)

    def __hash__(self):
        return hash((id(self._spec), self._kind, self._key))

    def __reduce__(self):
        raise TypeError(f"a {self.kind} belongs to its spec, and is no thing of its own that could be copied or pickled: Spec.copy copies all")


class Element(Record):
    """An element of a spec: a body, a geom, an actuator, ... Its fields are attributes, with the names of the C struct."""

    @property
    def place(self):
        """Where it stands in the file that it was read from, "file:line:column"; "" if it was added."""
        return self._spec_core.place(self._kind, self._key)

    @property
    def index(self):
        """Its number among those of its kind; ReferenceError where it was removed."""
        number = self._spec_core.number(self._kind, self._key)
        if number < 0:
            raise ReferenceError(f"the {self.kind} was removed from its spec")
        return number

    def update(self, **fields):
        """Change several fields; ArgumentError with name and place where one is wrong, and then those before it are changed."""
        for name, value in fields.items():
            if name not in type(self)._settable:
                raise ArgumentError(f"{self._called}: {_unknown(self.kind, name, type(self)._settable)}")
            setattr(self, name, value)

    def remove(self):
        """Take it out: as Spec.remove."""
        self.spec.remove(self)

    def __repr__(self):
        if self._spec_core.number(self._kind, self._key) < 0:
            return f"<{self.kind}, removed>"
        return f"<{self.kind} {self.index}{f' {self.name!r}' if self.name else ''} of a spec>"


class Settings(Record):
    """Settings of a spec: compiler, option, statistic, size."""

    def __repr__(self):
        return f"<{self.kind}: {', '.join(self._fields)}>"


def _unknown(kind, name, there):
    near = difflib.get_close_matches(name, there, 1)
    return f"a {kind} has no field '{name}'" + (f"; did you mean '{near[0]}'?" if near else f"; it has {', '.join(sorted(there))}")


# ---- kinds --------------------------------------------------------------------------------------------------------------------
_TABLE = _core.spec_kinds()
KINDS = [name for name, _, _ in _TABLE]
_LISTS = {name: members for name, members, _ in _TABLE if members}
_SETTINGS = ("compiler", "option", "statistic", "size")
_WHOLE = KINDS.index("spec")


def _fields_of(kind):
    made = [Field(KINDS.index(kind), k, row) for k, row in enumerate(_TABLE[KINDS.index(kind)][2])]
    return {f.name: f for f in made}


_PARTS = {_PATH: [], _ENTRIES: []}
_PARTS.update({_PATH: list(_fields_of("wrap").values()), _ENTRIES: list(_fields_of("entry").values())})


def _class_of(kind, base):
    """The class of a kind, with a descriptor for each field."""
    fields = _fields_of(kind)
    turns = {f"{name[:-3]}{word}": Turn(word, name[:-3]) for name in fields if name.endswith("alt") and name[:-3] + "quat" in fields for word in _TURNS}
    body = {**fields, **turns, "_fields": fields, "_settable": frozenset({*fields, *turns}), "_kind": KINDS.index(kind), "kind": kind, "__module__": __name__,
            "__doc__": f"{'Settings' if base is Settings else 'An element'} of a spec: {kind}."}
    return type(kind.title(), (base,), body)


_CLASSES = {kind: _class_of(kind, Element) for kind in _LISTS}
_CLASSES.update({kind: _class_of(kind, Settings) for kind in _SETTINGS})
_IN_TREE = [kind for kind in _LISTS if "body" in _CLASSES[kind]._fields]


class Elements:
    """Elements of a kind in their order: by number, by name, and to go through."""

    def __init__(self, spec, kind):
        self._spec, self._kind = spec, KINDS.index(kind)

    def __len__(self):
        return self._spec._core.count(self._kind)

    def __getitem__(self, which):
        if isinstance(which, slice):
            return [self[k] for k in range(*which.indices(len(self)))]
        if isinstance(which, str):
            number = self._spec._core.find(self._kind, which)
            if number < 0:
                names = [e.name for e in self if e.name]
                near = difflib.get_close_matches(which, names, 1)
                raise KeyError(f"no {KINDS[self._kind]} '{which}'" + (f"; did you mean '{near[0]}'?" if near else ""))
        else:
            number = range(len(self))[which]  # with IndexError
        return self._spec._element(self._kind, self._spec._core.key(self._kind, number))

    def __iter__(self):
        return iter(self[:])

    def __contains__(self, thing):
        return (isinstance(thing, str) and self._spec._core.find(self._kind, thing) >= 0) or \
            (isinstance(thing, Element) and thing.spec is self._spec and thing._kind == self._kind and self._spec._core.number(thing._kind, thing._key) >= 0)

    def __repr__(self):
        return f"<{len(self)} {_LISTS[KINDS[self._kind]]}: {', '.join(repr(e.name) for e in self[:20])}{', ...' if len(self) > 20 else ''}>"


class Spec(Record):
    """A world that is edited and then compiled into a Model: pbSpec of C, in Python.

    Spec() is empty; Spec.load and Spec.from_string read one. worldbody, bodies, joints, geoms, ...: elements by number and name; body("trunk"),
    geom("foot"), ...: one of them; add_body, add_geom, ...: more of them, also of a body and a frame; remove; option, compiler, statistic, size:
    settings. Fields are attributes with the names, units and defaults of pullback/spec.h. compile makes a Model and leaves the spec as it is.
    """

    _kind, kind = _WHOLE, "spec"

    def __init__(self, _made=None):
        object.__setattr__(self, "_core", _core.Spec() if _made is None else _made)
        object.__setattr__(self, "_warnings", tuple(self._core.warnings().splitlines()))
        super().__init__(self, 0)

    # ---- where it comes from
    @classmethod
    def load(cls, path, *, allow_root=(), package_path=(), floating_base=False, fuse=False, motors=False, inertia="refuse", missing_meshes="refuse",
             design=False, xacro=False):
        """A spec from a file: MJCF, URDF or MuJoCo's archives (.mjz). Options are those of load; raises InputError with file, line and reason."""
        refuse_mujoco(path, "path")
        file = os.fsdecode(path_of(path, "path"))
        settings = _reading(package_path, floating_base, fuse, motors, inertia, missing_meshes, design)
        if file.lower().endswith(".json"):
            raise ArgumentError(f"path: a task, whose model is a file of its own: '{file}'")
        if xacro or not isinstance(xacro, bool):
            with expanded(file, xacro, _each(settings["package_path"])) as (made, roots):
                return cls(_core.Spec(path=made, allow_root=paths_of([*roots, *_each(paths_of(allow_root, "allow_root"))], "allow_root"), **settings))
        settings["allow_root"] = paths_of(allow_root, "allow_root")
        if file.lower().endswith(".mjz"):
            with unpacked(file) as made:
                return cls(_core.Spec(path=made, **settings))
        return cls(_core.Spec(path=file, **settings))

    @classmethod
    def from_string(cls, text, assets=None, *, name="model.xml", floating_base=False, fuse=False, motors=False, inertia="refuse", missing_meshes="refuse",
                    design=False):
        """A spec from the text of an MJCF or URDF file; assets, name and options as of loads."""
        refuse_mujoco(text, "text")
        if not isinstance(text, (str, bytes)):
            raise ArgumentError(f"text: expected that of a model, found {type(text).__name__}")
        settings = _reading((), floating_base, fuse, motors, inertia, missing_meshes, design)
        if not assets:
            return cls(_core.Spec(path=name, text=text, **settings))
        with private() as folder:
            for path, data in {**assets, name: text}.items():
                write_below(folder, path, data, "assets")
            return cls(_core.Spec(path=os.path.join(folder, name), **settings))

    def copy(self):
        """A spec of its own with the same elements and settings. Elements of this one are none of the other's."""
        made = type(self)(self._core.copy())
        object.__setattr__(made, "_warnings", self._warnings)
        return made

    __copy__ = copy

    def __deepcopy__(self, memo):
        return self.copy()

    # ---- what it has
    @property
    def warnings(self):
        """Of reading it, one text each."""
        return self._warnings

    @property
    def worldbody(self):
        """The world, body 0."""
        return self.bodies[0]

    def _element(self, kind, key):
        return _CLASSES[KINDS[kind]](self, key)

    # ---- changing it
    def _add(self, kind, fields, given):
        """An element with these fields, which stand for each name once; nothing is added where one is wrong."""
        for name in fields:
            if name in given:
                raise ArgumentError(f"{kind}: {name} is that of what it is added to")
        known = _CLASSES[kind]._settable
        for name in fields:
            if name not in known:
                raise ArgumentError(_unknown(kind, name, known))
        element = self._element(KINDS.index(kind), self._core.add(KINDS.index(kind)))
        try:
            element.update(**given, **fields)
        except BaseException:
            element.name = ""  # which takes along nothing
            self._core.remove(element._kind, element._key)
            raise
        return element

    def remove(self, element):
        """Take out an element of this spec.

        With it goes what stands in it, of a body and a frame, and what refers to any of that by name: pairs, excludes, equalities, tendons,
        actuators, sensors and tuples. What names a mesh or a material that is gone stays, as keyframes do: compile says where they do not fit.
        Raises ArgumentError for what is of another spec, ReferenceError for what was removed.
        """
        if not isinstance(element, Element) or element.spec is not self:
            raise ArgumentError(f"remove: expected an element of this spec, found {element!r}")
        self._core.remove(element._kind, element._key)

    def attach(self, other, prefix="", *, to=None, **fields):
        """Put what stands in another spec's world into a body or frame of this one (to; by default the world).

        It gets a frame of its own, which is returned; fields are that frame's: pos, quat, name, ... Names get the prefix. With it come meshes, materials,
        pairs, excludes, equalities, tendons, actuators, sensors, numbers and texts, and keyframes: what one does not state of the other's joints and
        actuators is NaN in it or behind its end, and as in the reference. Options, sizes and statistics are those of this spec; what of it that changes is
        in warnings. The other spec stays as it is. Raises ArgumentError where a name is there already, and for what is no part of this spec; nothing is
        changed then.
        """
        to = self.worldbody if to is None else to
        if not isinstance(to, Element) or to.spec is not self or to.kind not in ("body", "frame"):
            raise ArgumentError(f"attach: expected a body or frame of this spec, found {to!r}")
        if not isinstance(other, Spec):
            raise ArgumentError(f"attach: expected a Spec, found {type(other).__name__}")
        if not isinstance(prefix, str) or any(c == "\0" or "\ud800" <= c <= "\udfff" for c in prefix):
            raise ArgumentError(f"prefix: expected a text, found {prefix!r}")
        to.add_frame(**fields).remove()  # so that nothing is attached where a field is wrong
        name = fields.get("name")
        if name and name in {*(f.name for f in self.frames), *(prefix + f.name for f in other.frames if f.name)}:
            raise ArgumentError(f"attach: a frame called {name!r} is there already")
        told = len(self._core.warnings().splitlines())
        frame = self._element(KINDS.index("frame"), self._core.attach(to._kind, to._key, other._core, prefix))
        object.__setattr__(self, "_warnings", (*self._warnings, *other._warnings, *self._core.warnings().splitlines()[told:]))
        frame.update(**fields)
        return frame

    def compile(self, *, options=None, contact=None, deformables=None, policy=None, expose=()):
        """The Model of this spec; options as of load. The spec stays as it is and may be edited and compiled again.

        The model is bit for bit that of a file which says the same. Raises InputError with the place of an element that came from a file,
        UnsupportedError.
        """
        compiled = _compile(self.model_name or "model", None, spec=self._core, options=options, contact=contact, deformables=deformables,
                            policy=policy, expose=expose, design=self.design)
        model = Model(compiled, None)
        model._keep(warnings=(*self._warnings, *model.warnings))
        return model

    def __reduce__(self):
        raise TypeError("a spec cannot be pickled: compile it, and pickle the model")

    def __repr__(self):
        counts = [f"{len(getattr(self, members))} {members}" for members in _LISTS.values() if len(getattr(self, members))]
        return f"<Spec {self.model_name!r}: {', '.join(counts)}>"


def _reading(package_path, floating_base, fuse, motors, inertia, missing_meshes, design):
    for name, value, allowed in (("inertia", inertia, _INERTIA), ("missing_meshes", missing_meshes, _MISSING)):
        if value not in allowed:
            raise ArgumentError(f"{name}: expected {', '.join(allowed)}, found {value!r}")
    return {"package_path": paths_of(package_path, "package_path", lists=True), "floating_base": bool(floating_base), "fuse": bool(fuse),
            "motors": bool(motors), "inertia": _INERTIA[inertia], "skip_missing": _MISSING[missing_meshes], "design": bool(design)}


# ---- what each kind brings ----------------------------------------------------------------------------------------------------
def _finder(kind, members):
    def find(self, name):
        return getattr(self, members)[name]
    find.__name__, find.__doc__ = kind, f"The {kind} of a name or number; KeyError with the nearest name, IndexError."
    return find


def _adder(kind, given, doc):
    """A method that adds an element; given: fields that follow from what it is a method of."""
    def add(self, /, **fields):
        return self.spec._add(kind, fields, given(self))
    add.__name__, add.__doc__ = f"add_{kind}", doc
    return add


def _attach(self, other, prefix="", **fields):
    """Put what stands in another spec's world into it: as Spec.attach."""
    return self.spec.attach(other, prefix, to=self, **fields)


_attach.__name__ = "attach"


def _complete():
    """Members of Spec, bodies and frames that each kind has one of."""
    whole = _fields_of("spec")
    for name, field in whole.items():
        setattr(Spec, name, field)
    Spec._fields, Spec._settable = whole, frozenset(whole)
    for kind in _SETTINGS:
        setattr(Spec, kind, property(lambda self, kind=kind: _CLASSES[kind](self, 0), doc=f"Settings: {kind}."))
    for kind, members in _LISTS.items():
        setattr(Spec, members, property(lambda self, kind=kind: Elements(self, kind), doc=f"All elements of kind {kind}, by number and name."))
        setattr(Spec, kind, _finder(kind, members))
        doc = f"A new {kind} with these fields, the others as by default; nothing is added where one is wrong."
        setattr(Spec, f"add_{kind}", _adder(kind, lambda self: {}, doc))
    for kind in [*_IN_TREE, "body"]:
        around, own = ("parent", "frame") if kind == "body" else ("body", "parent") if kind == "frame" else ("body", "frame")
        doc = f"A new {kind} in it, with these fields, the others as by default; nothing is added where one is wrong."
        setattr(_CLASSES["body"], f"add_{kind}", _adder(kind, lambda self, around=around: {around: self}, doc))
        setattr(_CLASSES["frame"], f"add_{kind}", _adder(kind, lambda self, around=around, own=own: {around: self.body, own: self}, doc))
    for kind in ("body", "frame"):
        _CLASSES[kind].attach = _attach


_complete()
globals().update({kind.title(): made for kind, made in _CLASSES.items()})
