#!/usr/bin/env python3
"""Writes the C interface as a module of Python: every function, struct, callback and enumerator of the public headers.

  tools/abi.py COMPILER OUTPUT HEADER...     part of the build; OUTPUT, a .py, lies beside the library it describes
  tools/abi.py --order                       keep the order of arguments in tools/argument_order.txt, after calls were looked at
  tools/abi.py --record                      keep the interface as it is released in tools/abi_record.txt (docs/promises.md)

Declarations are read from the preprocessed headers; sizes, offsets, lengths of arrays and values of enumerators are asked of the
compiler. A declaration that is not understood ends the build. In between, types are written as
  "double"  |  "pbModel"  |  ["pointer", type]  |  ["array", type, length]  |  ["function", result, [type, ...]]
and the module is tools/abi_module.py with a line for each declaration below it.

No compiler sees that two arguments of one type have changed places. So their order is kept, and where it is another the build ends.
"""
import keyword
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOKEN = re.compile(r'[A-Za-z_]\w*|\d[\w.]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\.\.\.|<<|>>|[^\s\w]')
ROOT = pathlib.Path(__file__).resolve().parent.parent
ORDER = ROOT / "tools" / "argument_order.txt"
RECORD = ROOT / "tools" / "abi_record.txt"  # of the last release
BASIC = {"void", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "_Bool"}
QUALIFIER = {"const", "volatile", "restrict", "__restrict", "extern"}
STANDARD = {"size_t", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "intptr_t", "uintptr_t"}


class Interface:
    """What the headers declare. Lengths and values are C expressions until the compiler has been asked."""

    def __init__(self):
        self.opaque, self.structs, self.enums, self.constants, self.callbacks, self.functions = set(), {}, {}, [], {}, {}
        self.arguments = {}  # names of a function's, "" where a header gives none

    def knows(self, name):
        return name in BASIC | STANDARD or name in self.opaque | set(self.structs) | set(self.enums) | set(self.callbacks)


class Parser:
    """Declarations of one translation unit, one after the other."""

    def __init__(self, tokens, interface):
        self.tokens, self.at, self.to, self.names = tokens, 0, interface, []

    def peek(self, ahead=0):
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def take(self, wanted=None):
        token = self.peek()
        if wanted is not None and token != wanted:
            raise SyntaxError(f"expected '{wanted}' before '{' '.join(self.tokens[self.at:self.at + 12])}'")
        self.at += 1
        return token

    def accept(self, token):
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def until(self, ends):
        """Text up to one of `ends` outside of brackets."""
        depth, begin = 0, self.at
        while depth or self.peek() not in ends:
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(self.take(), 0)
        return " ".join(self.tokens[begin:self.at])

    # ---- types ------------------------------------------------------------------------------------------------------
    def specifier(self):
        """The type before the declarators."""
        words = []
        while True:
            if self.peek() in QUALIFIER:
                self.take()
            elif self.peek() in ("struct", "enum"):
                words = [self.compound(self.take())]
            elif self.peek() in BASIC:
                words.append(self.take())
            elif not words and (self.peek() == "FILE" or self.to.knows(self.peek())):
                words = [self.take()]
                if words == ["FILE"]:  # of the C library
                    self.to.opaque.add("FILE")
            else:
                break
        if not words:
            raise SyntaxError(f"no type begins '{' '.join(self.tokens[self.at:self.at + 12])}'")
        return " ".join(words)

    def compound(self, kind):
        """struct or enum, with its members where they stand here; its name."""
        name = self.take() if self.peek() != "{" else ""
        if self.accept("{"):
            if kind == "enum":
                self.enumerators(name)
            else:
                self.to.structs[name] = self.members(name)
                self.to.opaque.discard(name)
        elif kind == "struct" and name not in self.to.structs:
            self.to.opaque.add(name)
        if not name and kind == "struct":
            raise SyntaxError("a struct without a name")
        return name or "int"

    def enumerators(self, name):
        values = []
        while not self.accept("}"):
            values.append(self.take())
            if self.accept("="):
                self.until({",", "}"})
            self.accept(",")
        self.to.constants += values
        if name:
            self.to.enums[name] = values

    def members(self, struct):
        members = []
        while not self.accept("}"):
            base = self.specifier()
            while True:
                members.append(self.declarator(base))
                self.keep_arguments(f"{struct}.{members[-1][0]}", members[-1][1])
                if not self.accept(","):
                    break
            self.take(";")
        return members

    def declarator(self, base):
        """(name, type); the name may be empty."""
        name, wrap = self.wrapping()
        return name, wrap(base)

    def wrapping(self):
        """The name in a declarator, and what makes its type of the type before it."""
        if self.accept("*"):
            while self.peek() in QUALIFIER:
                self.take()
            name, inner = self.wrapping()
            return name, lambda base: inner(["pointer", base])
        name, inner = "", lambda base: base
        if self.peek() == "(" and self.peek(1) == "*":
            self.take()
            name, inner = self.wrapping()
            self.take(")")
        elif re.match(r"[A-Za-z_]", self.peek()):
            name = self.take()
        suffix = self.suffix()
        return name, lambda base: inner(suffix(base))

    def suffix(self):
        if self.accept("["):
            length = self.until({"]"})
            self.take("]")
            rest = self.suffix()
            return lambda base: ["array", rest(base), length]
        if self.accept("("):
            parameters = self.parameters()
            return lambda base: ["function", base, parameters]
        return lambda base: base

    def parameters(self):
        found, names = [], []
        while not self.accept(")"):
            if self.accept("..."):
                found.append("...")
            else:
                name, kind = self.declarator(self.specifier())
                names.append(name)
                found.append(["pointer", kind[1]] if kind[0] == "array" else ["pointer", kind] if kind[0] == "function" else kind)
            self.accept(",")
        self.names = [] if found == ["void"] else names  # those of the outermost list, which ends last
        return [] if found == ["void"] else found

    def keep_arguments(self, name, kind):
        """Names of the arguments of a function, or of what a pointer to one is called with."""
        if kind[0] == "function" or (kind[0] == "pointer" and kind[1][0] == "function"):
            self.to.arguments[name] = self.names

    # ---- declarations -----------------------------------------------------------------------------------------------
    def declaration(self):
        if self.accept(";"):
            return
        named = self.accept("typedef")
        base = self.specifier()
        while self.peek() != ";":
            name, kind = self.declarator(base)
            if named and kind != name:
                self.name(name, kind)
            elif not named and kind[0] == "function":
                self.to.functions[name] = kind[1:]
                self.keep_arguments(name, kind)
            elif not named:
                raise SyntaxError(f"{name} is neither a type nor a function")
            if not self.accept(","):
                break
        self.take(";")

    def name(self, name, kind):
        if kind == "int" and name not in self.to.enums:  # an enum without a tag
            self.to.enums[name] = []
        elif kind[0] == "pointer" and kind[1][0] == "function":
            self.to.callbacks[name] = kind
            self.keep_arguments(name, kind)
        else:
            raise SyntaxError(f"{name} is another name of a type")


def declarations(compiler, headers, folders):
    """Tokens of the declarations that stand in the headers themselves."""
    text = "".join(f'#include "{os.path.abspath(h)}"\n' for h in headers)
    out = subprocess.run([*compiler, "-E", "-D__attribute__(x)=", "-xc", *(f"-I{f}" for f in folders), "-"], input=text, capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    ours, here, tokens = {os.path.realpath(h) for h in headers}, False, []
    for line in out.stdout.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            here = os.path.realpath(marker[1]) in ours
        elif here and not line.startswith("#"):
            tokens += TOKEN.findall(line)
    return tokens


def lengths(kind, found):
    """Every expression that is the length of an array in a type."""
    if isinstance(kind, list):
        if kind[:1] == ["array"]:
            found.add(kind[2])
        for part in kind[1:2] if kind[:1] == ["array"] else kind:
            lengths(part, found)
    return found


def ask(compiler, headers, folders, questions):
    """Values of constant expressions, by the compiler the library is built with."""
    text = "".join(f'#include "{os.path.abspath(h)}"\n' for h in headers)
    text += "#include <stdio.h>\nint main(void) {\n" + "".join(f'  printf("%lld\\n", (long long)({q}));\n' for q in questions) + "  return 0;\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "probe")
        done = subprocess.run([*compiler, "-xc", "-w", "-o", program, *(f"-I{f}" for f in folders), "-"], input=text, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        answers = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
    return dict(zip(questions, map(int, answers), strict=True))


def resolved(kind, values):
    if not isinstance(kind, list):
        return kind
    if kind[:1] == ["array"]:
        return ["array", resolved(kind[1], values), values[kind[2]]]
    return [resolved(part, values) for part in kind]


def describe(compiler, headers, folders):
    interface = Interface()
    parser = Parser(declarations(compiler, headers, folders), interface)
    while parser.peek():
        if parser.peek() == "static":  # an inline function: no part of the library
            parser.until({"{"})
            parser.take("{")
            parser.until({"}"})
            parser.take("}")
        else:
            parser.declaration()
    expressions = set()
    for members in interface.structs.values():
        lengths([kind for _, kind in members], expressions)
    for kind in [*interface.functions.values(), *interface.callbacks.values()]:
        lengths(kind, expressions)
    questions = sorted(expressions - {""}) + interface.constants
    for name, members in interface.structs.items():
        questions += [f"sizeof({name})", *(f"offsetof({name}, {field})" for field, _ in members)]
    questions += [f"sizeof({name})" for name in interface.enums]
    values = ask(compiler, headers, folders, list(dict.fromkeys(questions)))
    return {
        "constants": {name: values[name] for name in interface.constants},
        "enums": {name: values[f"sizeof({name})"] for name in interface.enums},
        "opaque": sorted(interface.opaque),
        "callbacks": {name: resolved(kind, values) for name, kind in interface.callbacks.items()},
        "structs": {name: {"size": values[f"sizeof({name})"],
                           "fields": [[field, resolved(kind, values), values[f"offsetof({name}, {field})"]] for field, kind in members]}
                    for name, members in interface.structs.items()},
        "functions": {name: [resolved(part, values) for part in kind] for name, kind in interface.functions.items()},
        "arguments": interface.arguments,
    }


# ---- the module -----------------------------------------------------------------------------------------------------------
def python(name):
    """A name that Python allows: pbMaterial's "def" is def_."""
    return name + "_" * (keyword.iskeyword(name) or name in ("int", "float"))


def spelled(kind, found):
    """A type in the words of tools/abi_module.py. Texts are text, objects behind a name alone handles, `void *` memory."""
    if isinstance(kind, str):
        return "int_" if kind in found["enums"] else "bool_" if kind == "_Bool" else python(kind.replace(" ", "_"))
    if kind[0] == "array":
        return f"({spelled(kind[1], found)} * {kind[2]})"
    at = kind[1]
    if at == "char":
        return "text"
    if at == "void":
        return "memory"
    if at in found["opaque"]:
        return "handle"
    if at[0] == "function":
        return f"function({', '.join(spelled(k, found) for k in [at[1], *at[2]])})"
    return f"to({spelled(at, found)})"


def declared(name, found):
    """The line of a function."""
    result, kinds = found["functions"][name]
    names = [python(n) or f"_{k}" for k, n in enumerate(found["arguments"][name])]
    arguments = ", ".join(f'("{n}", {spelled(k, found)})' for n, k in zip(names, kinds, strict=True))
    opaque = lambda kind: kind[0] == "pointer" and kind[1] in found["opaque"]
    objects = [(k, kind[1]) for k, kind in enumerate(kinds) if opaque(kind)]
    made = [k for k, kind in enumerate(kinds) if kind[0] == "pointer" and opaque(kind[1])]
    return f'{name} = _declare("{name}", {spelled(result, found)}, [{arguments}], {result == "pbStatus"}, {objects}, {made})'


def module(found):
    """Text of the module; a function with "..." is called from C alone."""
    lines = [f"{name} = {value}" for name, value in found["constants"].items()]
    lines += [f"class {name}(Struct): pass" for name in found["structs"]]
    lines += [f"{name} = {spelled(kind, found)}" for name, kind in found["callbacks"].items()]
    for name, struct in found["structs"].items():
        members = "".join(f', ("{python(m)}", {spelled(kind, found)}, {offset})' for m, kind, offset in struct["fields"])
        lines.append(f"_members({name}, {struct['size']}{members})")
    lines += [declared(name, found) for name, (_, kinds) in found["functions"].items() if "..." not in kinds]
    return "\n".join(lines) + "\n"


# ---- the order of arguments ---------------------------------------------------------------------------------------------
def order(found):
    """Names of arguments, in order, of all that takes more than one; a name that a header does not give is its place."""
    return {name: [a or str(k) for k, a in enumerate(arguments)] for name, arguments in found["arguments"].items() if len(arguments) > 1}


def kept_order():
    with open(ORDER, encoding="utf-8") as f:
        return {name: arguments for name, *arguments in map(str.split, f)}


def changed_places(before, now):
    """What says that arguments with the same names have another order."""
    for name in before.keys() & now.keys():
        both = set(before[name]) & set(now[name])
        if [a for a in before[name] if a in both] != [a for a in now[name] if a in both]:
            yield (f"{name}({', '.join(before[name])}) has become ({', '.join(now[name])}): its calls still compile. Look at all of them "
                   "(git grep), then tools/abi.py --order")


def keep_order():
    """Writes tools/argument_order.txt from the headers as they are."""
    found = all_found()
    with open(ORDER, "w", encoding="utf-8") as f:
        f.writelines(f"{name} {' '.join(arguments)}\n" for name, arguments in sorted(order(found).items()))


# ---- the interface as it was released -------------------------------------------------------------------------------------
def recorded(found):
    """A line for each value, struct and function, as a program that is compiled already knows them."""
    lines = [f"value {name} {value}" for name, value in found["constants"].items()]
    for name, struct in found["structs"].items():
        members = "".join(f", {m} {spelled(kind, found)} {at}" for m, kind, at in struct["fields"])
        lines.append(f"struct {name} {struct['size']}{members}")
    for name, (result, kinds) in found["functions"].items():
        arguments = "".join(f", {k if k == '...' else spelled(k, found)}" for k in kinds)
        lines.append(f"function {name} {spelled(result, found)}{arguments}")
    return sorted(lines)


def release():
    """Version of the project, number of its binary interface."""
    version = re.search(r"project\(pullback VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    return version, int(re.search(r"#define PB_ABI (\d+)", (ROOT / "include/pullback/base.h").read_text(encoding="utf-8"))[1])


def kept_record():
    head, *lines = RECORD.read_text(encoding="utf-8").splitlines()
    _, version, _, number = head.split()
    return version, int(number), lines


def broken(before, now):
    """Lines of an earlier interface that the present one has no more, under which old programs would go wrong."""
    return sorted(set(before) - set(now))


def all_found():
    """What all public headers say."""
    headers = [h for folder in ("include", "lcp/include") for h in sorted((ROOT / folder / "pullback").glob("*.h"))]
    headers.append(ROOT / "io/mjcf/mjcf_schema.h")
    return describe(["cc"], headers, [ROOT / "include", ROOT / "lcp/include", ROOT])


def keep_record():
    """Writes tools/abi_record.txt, which is what a release promises."""
    found, (version, number) = all_found(), release()
    if RECORD.exists():
        _, before, lines = kept_record()
        wrong = broken(lines, recorded(found))
        if wrong and number <= before:
            sys.exit("PB_ABI must go up, since these are gone or different:\n" + "\n".join(wrong))
    RECORD.write_text("\n".join([f"version {version} abi {number}", *recorded(found)]) + "\n", encoding="utf-8")


def main(compiler, output, *headers):
    found = describe([compiler], headers, [pathlib.Path(headers[0]).resolve().parent.parent, ROOT / "include", ROOT])
    wrong = sorted(changed_places(kept_order(), order(found)))
    if wrong:
        sys.exit("\n".join(wrong))
    with open(output + ".new", "w", encoding="utf-8") as f:
        f.write((ROOT / "tools" / "abi_module.py").read_text(encoding="utf-8") + module(found))
    os.replace(output + ".new", output)


if __name__ == "__main__":
    {("--order",): keep_order, ("--record",): keep_record}.get(tuple(sys.argv[1:]), lambda: main(*sys.argv[1:]))()
