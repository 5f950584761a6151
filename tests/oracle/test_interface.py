"""What Python knows of the C interface is what was built: layouts, functions, statuses."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import numpy as np
import pytest

import inside
from inside import native

sys.path.insert(0, os.path.join(inside.ROOT, "tools"))
import abi  # noqa: E402

HEADER = """#include <stddef.h>
typedef struct pbThing pbThing;
enum { PB_MOST = 3 };
typedef enum pbWord { pb_one, pb_two = 5, pb_three } pbWord;
typedef int (*pbCall)(void *user, const pbThing *thing);
typedef struct pbPart { char tag; double at[PB_MOST][2]; const int (*offset)[3]; struct pbPart *next; pbWord word; } pbPart;
pbPart pbThing_Part(const pbThing *thing, const double by[3], size_t count, pbCall call);
"""


def described(folder, header):
    path = folder / "thing.h"
    path.write_text(header)
    return abi.describe(["cc"], [path], [folder])


def test_headers_are_understood(tmp_path):
    found = described(tmp_path, HEADER)
    assert found["constants"] == {"PB_MOST": 3, "pb_one": 0, "pb_two": 5, "pb_three": 6} and found["opaque"] == ["pbThing"]
    assert found["structs"]["pbPart"] == {"size": 80, "fields": [
        ["tag", "char", 0], ["at", ["array", ["array", "double", 2], 3], 8], ["offset", ["pointer", ["array", "int", 3]], 56],
        ["next", ["pointer", "pbPart"], 64], ["word", "pbWord", 72]]}
    assert found["functions"] == {"pbThing_Part": ["pbPart", [["pointer", "pbThing"], ["pointer", "double"], "size_t", "pbCall"]]}
    assert found["arguments"] == {"pbThing_Part": ["thing", "by", "count", "call"], "pbCall": ["user", "thing"]}
    assert found["callbacks"] == {"pbCall": ["pointer", ["function", "int", [["pointer", "void"], ["pointer", "pbThing"]]]]}


@pytest.mark.parametrize("line", ["typedef union pbBoth { int a; double b; } pbBoth;", "typedef struct pbFew { int a : 3; } pbFew;", "extern int pb_global;"])
def test_what_is_not_understood_ends_the_build(tmp_path, line):
    with pytest.raises(SyntaxError):
        described(tmp_path, HEADER + line + "\n")


def test_every_declared_function_is_in_the_library():
    assert len(native.functions) > 400  # the module would not have been loaded otherwise


@pytest.mark.parametrize("change, found", [
    (lambda text: text.replace('("count", int_, 8), ', "", 1), "TypeError.*pbCotangent has"),
    (lambda text: text.replace(', ("steps", to(int_), 16))', ")", 1), "TypeError.*pbCotangent has 16 bytes here and 24 in C"),
    (lambda text: text.replace('_declare("pbVersion"', '_declare("pbVersions"'), "pbVersions")])
def test_another_interface_is_refused(tmp_path, change, found):
    """A struct that is not as it was when the library was built, a function that is not there."""
    os.symlink(native.path, tmp_path / "libpullback.so")
    with open(os.path.join(inside.build_dir(), "pullback_abi.py"), encoding="utf-8") as f:
        text = f.read()
    (tmp_path / "pullback_abi.py").write_text(text)
    assert inside.declarations(tmp_path).pbVersion() == native.pbVersion()
    assert change(text) != text
    (tmp_path / "pullback_abi.py").write_text(change(text))
    with pytest.raises((TypeError, AttributeError)) as raised:
        inside.declarations(tmp_path)
    assert re.search(found, f"{raised.type.__name__} {raised.value}")


def test_a_library_without_its_declarations_is_refused(tmp_path):
    shutil.copy(native.path, tmp_path / "libpullback.so")
    with pytest.raises(FileNotFoundError, match="pullback_abi.py"):
        inside.declarations(tmp_path)


# ---- after a change of the headers ---------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """The headers with a member more at the head of every struct and an enumerator more at that of every enum; the folder, the headers."""
    folder = tmp_path_factory.mktemp("changed")
    for kind in ("include", "io/mjcf"):
        shutil.copytree(os.path.join(inside.ROOT, kind), folder / kind)
    headers = sorted((folder / "include" / "pullback").glob("*.h")) + [folder / "io" / "mjcf" / "mjcf_schema.h"]
    for path in headers:
        text = re.sub(r"(typedef struct\s+pb\w+ \{)", r"\1 pbMore more_here;", path.read_text())
        path.write_text(re.sub(r"(typedef enum (pb\w+) \{)", r"\1 pb_moreOf\2,", text))
    base = folder / "include" / "pullback" / "base.h"
    base.write_text("#pragma once\ntypedef struct pbMore { int first; double second; } pbMore;\n" + base.read_text())
    return folder, headers


def test_members_and_enumerators_follow_the_headers(changed, tmp_path):
    """Of every struct and enum: places and values in Python are those that a compiler finds in the changed headers."""
    folder, headers = changed
    found = abi.describe(["cc"], headers, [folder / "include", folder])
    os.symlink(native.path, tmp_path / "libpullback.so")
    with open(os.path.join(inside.ROOT, "tools", "abi_module.py"), encoding="utf-8") as f:
        (tmp_path / "pullback_abi.py").write_text(f.read() + abi.module(found))
    now, asked = inside.declarations(tmp_path), []
    for name in found["structs"]:
        if name == "pbMore":
            continue
        cls, before = getattr(now, name), getattr(native, name)
        assert all(getattr(cls, m).offset > getattr(before, m).offset for m in before.kinds), name
        asked += [f"offsetof({name}, {m.removesuffix('_') if m.endswith('_') else m}) == {getattr(cls, m).offset}" for m in cls.kinds]
    asked += [f"{name} == {getattr(now, name)}" for name in found["constants"]]
    assert len(asked) > 1500 and now.pb_file == native.pb_file + 1

    text = "".join(f'#include "{h}"\n' for h in headers) + "".join(f"_Static_assert({q}, \"\");\n" for q in asked)
    flags = [f"-I{folder / 'include'}", f"-I{folder}"]
    compile_ = lambda text: subprocess.run(["cc", "-fsyntax-only", "-xc", *flags, "-"], input=text, capture_output=True, text=True)
    done = compile_(text)
    assert done.returncode == 0, done.stderr[:2000]
    assert compile_(text.replace("offsetof(pbCotangent, count) == ", "offsetof(pbCotangent, count) == 1 + ")).returncode != 0


def test_the_extension_names_members(changed, tmp_path):
    """It compiles against the changed headers: no member, no value by its place."""
    folder, _ = changed
    core = sorted(pathlib.Path(inside.ROOT, "python", "core").glob("*.c"))
    planted = tmp_path / "planted.c"
    planted.write_text("#include <pullback/pullback.h>\npbInput planted(const double *ctrl);\npbInput planted(const double *ctrl) { return (pbInput){ctrl}; }\n")
    flags = ["-Wall", "-Wextra", "-Werror", "-Wno-missing-braces", "-Wno-missing-field-initializers", "-DPy_LIMITED_API=0x030B0000", "-D_GNU_SOURCE",
             '-DPB_OLDEST_GLIBC="2.2.5"', f"-I{folder / 'include'}", f"-I{inside.ROOT}", f"-I{sysconfig.get_paths()['include']}"]
    compile_ = lambda *files: subprocess.run(["cc", "-fsyntax-only", "-std=gnu17", *flags, *files], capture_output=True, text=True)
    done = compile_(*core)
    assert done.returncode == 0, done.stderr[:2000]
    assert compile_(planted).returncode != 0


def test_arguments_that_change_places_end_the_build(tmp_path):
    """Two of one type, of every function, callback and member that is called; one of them in a header, as a build meets it."""
    headers = sorted(pathlib.Path(inside.ROOT, "include", "pullback").glob("*.h"))
    now, swapped = abi.order(abi.describe(["cc"], headers, [os.path.join(inside.ROOT, "include")])), 0
    kept = abi.kept_order()
    for name, arguments in now.items():
        for k in range(len(arguments) - 1):
            other = [*arguments[:k], arguments[k + 1], arguments[k], *arguments[k + 2:]]
            assert list(abi.changed_places(kept, {name: other}))
            swapped += 1
    assert swapped > 700

    shutil.copytree(os.path.join(inside.ROOT, "include"), tmp_path / "include")
    path = tmp_path / "include" / "pullback" / "world.h"
    text = path.read_text()
    path.write_text(re.sub(r"(pbState_Difference\([^;]*const double \*)a(, const double \*)b\b", r"\1b\2a", text))
    assert path.read_text() != text
    out = tmp_path / "pullback_abi.py"
    done = subprocess.run([sys.executable, os.path.join(inside.ROOT, "tools", "abi.py"), "cc", str(out), *map(str, (tmp_path / "include" / "pullback").glob("*.h"))],
                          capture_output=True, text=True)
    assert done.returncode != 0 and "pbState_Difference(model, a, b" in done.stderr and "its calls still compile" in done.stderr, done.stderr
    assert not out.exists()


def test_the_kept_order_of_arguments_is_that_of_the_headers():
    folders = [os.path.join(inside.ROOT, name) for name in ("include", "lcp/include", "")]
    headers = [h for folder in folders[:2] for h in sorted(pathlib.Path(folder, "pullback").glob("*.h"))] + [pathlib.Path(inside.ROOT, "io/mjcf/mjcf_schema.h")]
    found = abi.order(abi.describe(["cc"], headers, folders))
    assert found == abi.kept_order(), "calls looked at? tools/abi.py --order"


# ---- arguments ------------------------------------------------------------------------------------------------------------
def test_arguments_by_place_and_by_name():
    m = inside.Model(os.path.join(inside.ROOT, "examples", "hopper", "hopper.xml"))
    x = m.init()
    moved, again, t = x.copy(), x.copy(), np.arange(m.nt) / 10
    native.pbState_Move(m.ptr, moved, t, .5)
    native.pbState_Move(m.ptr, eps=.5, tangent=t, x=again)
    assert np.array_equal(moved, again) and not np.array_equal(moved, x)
    for wrong in (dict(step=1), dict(x=again)):
        with pytest.raises(TypeError, match="pbState_Move\\(model, x, "):
            native.pbState_Move(m.ptr, moved, t, **wrong)
    with pytest.raises(TypeError, match="3 arguments"):
        native.pbState_Move(m.ptr, moved, t)
    with pytest.raises(TypeError, match="expected an object of the library, found ndarray"):
        native.pbState_Move(moved, moved, t, .5)


@pytest.mark.parametrize("value, found", [(np.zeros(3, np.float32), "float64"), (np.zeros((3, 2))[:, 0], "contiguous"), (np.zeros(3) + 0j, "complex128")])
def test_arrays_that_c_would_misread_are_refused(value, found):
    with pytest.raises((TypeError, ValueError, BufferError), match=found):
        native.pbInput(ctrl=value)


def test_members_have_names():
    cotangent = native.pbCotangent(data=np.arange(3.), count=1)
    assert cotangent.data[:3] == [0, 1, 2] and not cotangent.steps
    with pytest.raises(AttributeError, match="pbCotangent has no member 'rows'"):
        native.pbCotangent(rows=1)
    with pytest.raises(TypeError):
        native.pbCotangent(np.zeros(3), 1)


def test_status_raises_with_the_text():
    """Of the context handed in, and of the context that an object was made with."""
    l = native
    context, model = l.pbContext_Create(None), l.handle()
    with pytest.raises(inside.Error, match="pbModel_Load.*absent.xml") as raised:
        l.pbModel_Load(context, "absent.xml", None, model)
    assert raised.value.status == l.pb_file and raised.value.text == l.pbContext_Error(context).decode()
    l.pbModel_Load(context, os.path.join(inside.ROOT, "examples", "hopper", "hopper.xml"), None, model)
    with pytest.raises(inside.Error, match="gravidity.*gravity"):
        l.pbModel_SetOption(model, "gravidity", "1")
    l.pbModel_Destroy(model)
    l.pbContext_Destroy(context)


def test_status_of_a_batch_raises_with_the_text_of_the_context():
    """Its own texts are of worlds, one each."""
    l = native
    model, batch = inside.Model(os.path.join(inside.ROOT, "examples", "hopper", "hopper.xml")), l.handle()
    l.pbBatch_Create(model.ctx, model.ptr, l.pbBatchOptions(worlds=2), batch)
    with pytest.raises(inside.Error, match="pbBatch_Rollout.*-1 steps"):
        l.pbBatch_Rollout(batch, None, None, 0, -1, None, None)
    l.pbBatch_Destroy(batch)


def test_what_no_header_declares_is_an_error():
    with pytest.raises(AttributeError, match="pbStep_Run"):
        native.pbStep_Run
