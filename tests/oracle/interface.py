"""The C interface through ctypes, made from what the build wrote beside the library (tools/abi.py): no struct is described by hand.

    native = Interface(folder)              native.pbRollout_Vjp(...)    a function, typed; raises Error unless it returns pb_ok
                                            native.pbRolloutBar          a struct's class
                                            native.pb_modeReverse        the value of an enumerator
"""
import ctypes as ct
import json
import keyword
import os

_BASIC = {
    "void": None, "char": ct.c_char, "signed char": ct.c_byte, "unsigned char": ct.c_ubyte, "short": ct.c_short, "unsigned short": ct.c_ushort,
    "int": ct.c_int, "unsigned": ct.c_uint, "unsigned int": ct.c_uint, "long": ct.c_long, "unsigned long": ct.c_ulong, "float": ct.c_float,
    "double": ct.c_double, "_Bool": ct.c_bool, "size_t": ct.c_size_t,
    **{f"{sign}int{bits}_t": getattr(ct, f"c_{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


class Error(RuntimeError):
    """A call that did not return pb_ok; .status is the code, .text what the library says of it."""

    def __init__(self, status, call, meaning, text):
        super().__init__(f"{call}: {meaning}: {text}" if text else f"{call}: {meaning}")
        self.status, self.text = status, text


def _address(argument):
    """The address that an argument for a pointer carries, 0 where it cannot be seen."""
    if isinstance(argument, int):
        return argument
    if isinstance(argument, ct.c_void_p):
        return argument.value or 0
    return ct.cast(argument, ct.c_void_p).value or 0 if isinstance(argument, ct._Pointer) else 0


class Interface:
    """The library of a build folder."""

    def __init__(self, folder):
        found = [d for d, _, names in os.walk(folder) if "libpullback.so" in names]
        if not found:
            raise FileNotFoundError(f"no libpullback.so under {folder}: make build")
        self.path, described = os.path.join(found[0], "libpullback.so"), os.path.join(found[0], "pullback_abi.json")
        if not os.path.exists(described):
            raise FileNotFoundError(f"{described} is not there: make build")
        with open(described, encoding="utf-8") as f:
            self.described = json.load(f)
        self.native, self.owner = ct.CDLL(self.path), {}  # owner: address of an object -> the context it was made with
        self.__dict__.update(self.described["constants"])
        self._structs()

    def _structs(self):
        """Classes of all structs, then their fields, which may name any of them; layouts must be the compiler's."""
        stated = self.described["structs"]
        for name in stated:
            setattr(self, name, type(name, (ct.Structure,), {}))
        done = set()

        def define(name):
            if name in done:
                return
            done.add(name)
            for _, kind, _ in stated[name]["fields"]:
                while kind[0] == "array":
                    kind = kind[1]
                if isinstance(kind, str) and kind in stated:  # a struct within is laid out first
                    define(kind)
            cls = getattr(self, name)
            python = lambda field: field + "_" * keyword.iskeyword(field)  # pbMaterial's "def" is def_
            cls._fields_ = [(python(field), self.type(kind)) for field, kind, _ in stated[name]["fields"]]
            wrong = [f for f, _, offset in stated[name]["fields"] if getattr(cls, python(f)).offset != offset]
            if wrong or ct.sizeof(cls) != stated[name]["size"]:
                raise TypeError(f"{name} has {ct.sizeof(cls)} bytes here and {stated[name]['size']} in C; other places: {wrong}")
        for name in stated:
            define(name)

    def type(self, kind):
        """The ctypes type of a type as tools/abi.py writes it. Texts are c_char_p, objects behind a name alone c_void_p."""
        if isinstance(kind, str):
            if kind in _BASIC:
                return _BASIC[kind]
            if kind in self.described["enums"]:
                return ct.c_int
            if kind in self.described["callbacks"]:
                return self.type(self.described["callbacks"][kind])
            return getattr(self, kind)
        if kind[0] == "array":
            return self.type(kind[1]) * kind[2]
        to = kind[1]
        if to == "char":
            return ct.c_char_p
        if to == "void" or to in self.described["opaque"]:
            return ct.c_void_p
        if to[0] == "function":
            return ct.CFUNCTYPE(self.type(to[1]), *map(self.type, to[2]))
        return ct.POINTER(self.type(to))

    def __getattr__(self, name):
        """A function, typed when it is first asked for, or the class of a callback."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self.described["callbacks"]:
            made = self.type(name)
        elif name in self.described["functions"]:
            result, arguments = self.described["functions"][name]
            made = getattr(self.native, name)
            made.restype, made.argtypes = self.type(result), [self.type(a) for a in arguments if a != "..."]
            if result == "pbStatus" and name != "pbContext_Fail":
                made.errcheck = self._check(name, arguments)
        else:
            raise AttributeError(f"no public header declares {name}")
        setattr(self, name, made)
        return made

    # ---- status -----------------------------------------------------------------------------------------------------
    def _check(self, name, arguments):
        """Raises with the library's own words unless the status is pb_ok; remembers whose context an object made by the call has."""
        objects = [(k, a[1]) for k, a in enumerate(arguments) if a[0] == "pointer" and a[1] in self.described["opaque"]]
        made = [k for k, a in enumerate(arguments) if a[0] == "pointer" and a[1][0] == "pointer" and a[1][1] in self.described["opaque"]]

        def check(status, _, given):
            if status:
                raise Error(status, name, self.pbStatus_Text(status).decode(), self._words(objects, given))
            for k in made:
                if given[k] is not None:
                    self.owner[_address(given[k]._obj)] = self._context(objects, given)
            return status
        return check

    def _context(self, objects, given):
        for k, kind in objects:
            address = _address(given[k])
            if kind == "pbContext" and address:
                return address
            if address in self.owner:
                return self.owner[address]
        return 0

    def _words(self, objects, given):
        """The text of the first object that has one of its own, else of the context."""
        for k, kind in objects:
            call = f"{kind}_Error"
            of_itself = len(self.described["functions"].get(call, (None, ()))[1]) == 1  # a batch's text is of one of its worlds
            if kind != "pbContext" and of_itself and _address(given[k]):
                text = getattr(self, call)(given[k])
                if text:
                    return text.decode()
        context = self._context(objects, given)
        return (self.pbContext_Error(context) or b"").decode() if context else ""
