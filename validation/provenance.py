"""What a case's numbers depend on, as one hash: the sources of library and program, and the case's own files."""
import ast
import functools
import hashlib
import os

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SOURCES = ("src", "lcp", "io", "include", "cli")
MODULES = (HERE, os.path.join(ROOT, "tests", "oracle"), os.path.join(ROOT, "tools"), os.path.join(ROOT, "bench"))
DATA = (ROOT, os.path.join(ROOT, "examples"), os.path.join(ROOT, "bench"), HERE)


def below(path):
    """All files of a folder, or the file itself."""
    if os.path.isfile(path):
        return {path}
    return {os.path.join(d, f) for d, folders, names in os.walk(path) if "__pycache__" not in d for f in names}


@functools.cache
def parsed(path):
    """(names of modules imported, texts) of a Python file."""
    with open(path, encoding="utf-8") as f:
        nodes = list(ast.walk(ast.parse(f.read())))
    names = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module}
    return names, {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str) and 0 < len(n.value) < 100}


def modules(path, found):
    """A Python file of the project and those it imports."""
    found.add(path)
    for name in parsed(path)[0]:
        for folder in MODULES:
            module = os.path.join(folder, name + ".py")
            if os.path.isfile(module) and module not in found:
                modules(module, found)
    return found


def own(case):
    """Files of a case: itself, what it imports, the package if that is among it, and the files and folders of examples that it names."""
    code = modules(os.path.join(HERE, case + ".py"), set())
    package = below(os.path.join(ROOT, "python")) if any("pullback" in parsed(path)[0] for path in code) else set()
    named = {os.path.join(folder, text) for path in code for text in parsed(path)[1] for folder in DATA if text.strip("./ \n")}
    folders = {p for p in named if os.path.isdir(p) and os.path.dirname(os.path.normpath(p)) == os.path.join(ROOT, "examples")}
    return code.union(package, *map(below, folders), {p for p in named if p.endswith((".xml", ".json", ".npz")) and os.path.isfile(p)})


@functools.cache
def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).digest()


def of(case):
    """The hash: 16 hexadecimal digits."""
    total = hashlib.sha256()
    for path in sorted(own(case).union(*(below(os.path.join(ROOT, folder)) for folder in SOURCES))):
        total.update(os.path.relpath(path, ROOT).encode() + b"\0" + digest(path))
    return total.hexdigest()[:16]
