"""The C interface of the library that lies beside this file. tools/abi.py writes it with every build: what stands above the line is
tools/abi_module.py, what stands below it is the compiler's view of the public headers.

    pbRollout_Vjp(rollout, bar, options=None, ...)   a function; arguments in order or by their names in the header. Raises Error
                                                     unless it returns pb_ok
    pbRolloutBar(qpos=...)                           a struct: any of its members
    pb_modeReverse                                   the value of an enumerator

A pointer is given as a contiguous, writable array of its numbers (no copy), as the struct it shall point to, as a list of structs,
texts or numbers, or as None. handle(), pointer(pbMesh), int_(), double() are places that a call writes to.
"""
import ctypes as ct
import os

import numpy as np

void, char, signed_char, unsigned_char, short, unsigned_short = None, ct.c_char, ct.c_byte, ct.c_ubyte, ct.c_short, ct.c_ushort
int_, unsigned, unsigned_int, long, unsigned_long, size_t = ct.c_int, ct.c_uint, ct.c_uint, ct.c_long, ct.c_ulong, ct.c_size_t
float_, double, bool_, text, handle = ct.c_float, ct.c_double, ct.c_bool, ct.c_char_p, ct.c_void_p
int8_t, int16_t, int32_t, int64_t = ct.c_int8, ct.c_int16, ct.c_int32, ct.c_int64
uint8_t, uint16_t, uint32_t, uint64_t = ct.c_uint8, ct.c_uint16, ct.c_uint32, ct.c_uint64
to, function = ct.POINTER, ct.CFUNCTYPE


class memory(ct.c_void_p):
    """`void *`: any memory. Objects, of which headers give a name alone, are handles, and no array is one."""


_POINTER, _FUNCTION = ct._Pointer, ct._CFuncPtr

_folder, _name = os.path.split(os.path.abspath(__file__))  # pullback_abi.py beside libpullback.so
path = os.path.join(_folder, f"lib{_name.removesuffix('_abi.py')}.so")
library = ct.CDLL(path)
functions, _owner = {}, {}  # _owner: address of an object -> the context it was made with


class Error(RuntimeError):
    """A call that did not return pb_ok; .status is the code, .text what the library says of it."""

    def __init__(self, status, call, meaning, text):
        super().__init__(f"{call}: {meaning}: {text}" if text else f"{call}: {meaning}")
        self.status, self.text = status, text


# ---- arguments and members ----------------------------------------------------------------------------------------------
def _numbers(value, item):
    """The memory of an array as C's array of items, which may be arrays themselves."""
    base, each = item, 1
    while issubclass(base, ct.Array):
        each, base = each * base._length_, base._type_
    if value.dtype != np.dtype(base):
        raise TypeError(f"expected an array of {np.dtype(base)}, found {value.dtype}")
    return (item * (value.size // each)).from_buffer(value)  # refuses what is not contiguous or not writable


def given(value, kind):
    """A value as ctypes takes it for this type."""
    if value is None or isinstance(value, (int, float, kind)):
        return value
    if kind is text:
        return os.fsencode(value)
    if kind is handle:
        raise TypeError(f"expected an object of the library, found {type(value).__name__}")
    if kind is memory:
        return ct.cast((char * value.nbytes).from_buffer(value), memory) if isinstance(value, np.ndarray) else getattr(value, "value", value)
    if issubclass(kind, _FUNCTION):
        return kind(value)
    if issubclass(kind, ct.Array):
        return _filled(value, kind)
    if issubclass(kind, _POINTER):
        if isinstance(value, np.ndarray):
            return _numbers(value, kind._type_)
        if isinstance(value, (list, tuple)):
            return (kind._type_ * len(value))(*(given(v, kind._type_) for v in value))
        if isinstance(value, Struct) and isinstance(value, kind._type_):
            return ct.pointer(value)
    return value


def _filled(value, kind):
    """An array of stated length from so many numbers."""
    if len(value) != kind._length_:
        raise ValueError(f"expected {kind._length_} entries, found {len(value)}")
    return kind(*(_filled(v, kind._type_) if issubclass(kind._type_, ct.Array) else v for v in value))


class Struct(ct.Structure):
    """A struct of the interface. Members have names, never places; one that it does not have is an error."""

    def __init__(self, /, **members):
        super().__init__()
        for name, value in members.items():
            setattr(self, name, value)

    def __setattr__(self, name, value):
        if name not in self.kinds:
            raise AttributeError(f"{type(self).__name__} has no member '{name}'")
        super().__setattr__(name, given(value, self.kinds[name]))


def pointer(kind):
    """A pointer to such a struct, to nothing yet."""
    return to(kind)()


def array(address, *shape):
    """View of the numbers behind a pointer, of doubles behind a plain address."""
    return np.ctypeslib.as_array(ct.cast(address, to(double)) if isinstance(address, (int, memory)) else address, shape)


def call(function_pointer, *values):
    """A function that a struct holds."""
    return function_pointer(*map(given, values, function_pointer._argtypes_))


# ---- calls --------------------------------------------------------------------------------------------------------------
def _address(value):
    """The address in a handle or a pointer, 0 where it cannot be seen."""
    if isinstance(value, handle):
        return value.value or 0
    if isinstance(value, _POINTER):
        return ct.cast(value, handle).value or 0
    return value if isinstance(value, int) else 0


def _context(objects, values):
    """The context among the arguments, or that an object among them was made with."""
    for k, kind in objects:
        address = _address(values[k])
        found = address if kind == "pbContext" else _owner.get(address, 0)
        if found:
            return found
    return 0


def _words(objects, values):
    """The text of the first object that has one of its own, else of the context."""
    for k, kind in objects:
        call = functions.get(f"{kind}_Error")
        of_itself = call and len(call.arguments) == 1  # a batch's text is of one of its worlds
        if kind != "pbContext" and of_itself and _address(values[k]):
            said = call(values[k])
            if said:
                return said.decode()
    context = _context(objects, values)
    return (functions["pbContext_Error"](context) or b"").decode() if context else ""


# ---- what declarations below are made of -----------------------------------------------------------------------------------
def _members(cls, size, *members):
    """Members by name, type and offset; the layout must be the compiler's."""
    cls.kinds = {name: kind for name, kind, _ in members}
    cls._fields_ = list(cls.kinds.items())
    wrong = [name for name, _, offset in members if getattr(cls, name).offset != offset]
    if wrong or ct.sizeof(cls) != size:
        raise TypeError(f"{cls.__name__} has {ct.sizeof(cls)} bytes here and {size} in C; other places: {wrong}")


def _declare(name, result, arguments, checked, objects, made):
    """A function. objects: places of arguments that are objects, with their kinds; made: of those where it leaves one."""
    native, names, kinds = getattr(library, name), [a for a, _ in arguments], [kind for _, kind in arguments]
    native.restype, native.argtypes = result, kinds

    def call(*values, **named):
        if named:
            unknown = set(named) - set(names[len(values):])
            if unknown:
                raise TypeError(f"{name}({', '.join(names)}) takes no further {', '.join(sorted(unknown))}")
            values = [*values, *(named.get(n) for n in names[len(values):])]
        if len(values) != len(names):
            raise TypeError(f"{name}({', '.join(names)}): {len(values)} arguments")
        status = native(*map(given, values, kinds))
        if checked and status:
            raise Error(status, name, functions["pbStatus_Text"](status).decode(), _words(objects, values))
        for k in made:
            if values[k] is not None:
                _owner[_address(values[k])] = _context(objects, values)
        return status

    call.__name__ = call.__qualname__ = name
    call.arguments = names
    functions[name] = call
    return call


# ---- written by tools/abi.py ---------------------------------------------------------------------------------------------
