"""What Python knows of the C interface is what was built: layouts, functions, statuses."""
import ctypes as ct
import json
import os
import shutil
import subprocess
import sys

import pytest

import interface
import pb

GENERATOR = os.path.join(pb.ROOT, "tools", "abi.py")
HEADER = """#include <stddef.h>
typedef struct pbThing pbThing;
enum { PB_MOST = 3 };
typedef enum pbWord { pb_one, pb_two = 5, pb_three } pbWord;
typedef int (*pbCall)(void *user, const pbThing *thing);
typedef struct pbPart { char tag; double at[PB_MOST][2]; const int (*offset)[3]; struct pbPart *next; pbWord word; } pbPart;
pbPart pbThing_Part(const pbThing *thing, const double by[3], size_t count, pbCall call);
"""


def described(folder, header):
    path, out = folder / "thing.h", folder / "thing.json"
    path.write_text(header)
    done = subprocess.run([sys.executable, GENERATOR, "cc", str(out), str(path)], capture_output=True, text=True)
    return json.loads(out.read_text()) if done.returncode == 0 else done.stderr


def test_headers_are_understood(tmp_path):
    found = described(tmp_path, HEADER)
    assert found["constants"] == {"PB_MOST": 3, "pb_one": 0, "pb_two": 5, "pb_three": 6} and found["opaque"] == ["pbThing"]
    assert found["structs"]["pbPart"] == {"size": 80, "fields": [
        ["tag", "char", 0], ["at", ["array", ["array", "double", 2], 3], 8], ["offset", ["pointer", ["array", "int", 3]], 56],
        ["next", ["pointer", "pbPart"], 64], ["word", "pbWord", 72]]}
    assert found["functions"] == {"pbThing_Part": ["pbPart", [["pointer", "pbThing"], ["pointer", "double"], "size_t", "pbCall"]]}
    assert found["callbacks"] == {"pbCall": ["pointer", ["function", "int", [["pointer", "void"], ["pointer", "pbThing"]]]]}


@pytest.mark.parametrize("line", ["typedef union pbBoth { int a; double b; } pbBoth;", "typedef struct pbFew { int a : 3; } pbFew;", "extern int pb_global;"])
def test_what_is_not_understood_ends_the_build(tmp_path, line):
    assert "SyntaxError" in described(tmp_path, HEADER + line + "\n")


def test_every_declared_function_is_in_the_library():
    missing = [name for name in pb.NATIVE.described["functions"] if not hasattr(pb.NATIVE.native, name)]
    assert not missing and len(pb.NATIVE.described["functions"]) > 200


def test_another_layout_is_refused(tmp_path):
    """A struct that is not as it was when the library was built."""
    stated = json.loads(json.dumps(pb.NATIVE.described))
    os.symlink(pb.NATIVE.path, tmp_path / "libpullback.so")
    (tmp_path / "pullback_abi.json").write_text(json.dumps(stated))
    assert interface.Interface(tmp_path).pbVersion() == pb.lib().pbVersion()
    stated["structs"]["pbRolloutBar"]["fields"].pop()
    (tmp_path / "pullback_abi.json").write_text(json.dumps(stated))
    with pytest.raises(TypeError, match="pbRolloutBar"):
        interface.Interface(tmp_path)


def test_a_library_without_its_description_is_refused(tmp_path):
    shutil.copy(pb.NATIVE.path, tmp_path / "libpullback.so")
    with pytest.raises(FileNotFoundError, match="pullback_abi.json"):
        interface.Interface(tmp_path)


def test_status_raises_with_the_text():
    """Of the context handed in, and of the context that an object was made with."""
    l = pb.lib()
    context, model = ct.c_void_p(l.pbContext_Create(None)), ct.c_void_p()
    with pytest.raises(pb.Error, match="pbModel_Load.*absent.xml") as raised:
        l.pbModel_Load(context, b"absent.xml", None, ct.byref(model))
    assert raised.value.status == l.pb_file and raised.value.text == l.pbContext_Error(context).decode()
    l.pbModel_Load(context, os.fsencode(os.path.join(pb.ROOT, "examples", "hopper", "hopper.xml")), None, ct.byref(model))
    with pytest.raises(pb.Error, match="gravidity.*gravity"):
        l.pbModel_SetOption(model, b"gravidity", b"1")
    l.pbModel_Destroy(model)
    l.pbContext_Destroy(context)


def test_status_of_a_batch_raises_with_the_text_of_the_context():
    """Its own texts are of worlds, one each."""
    l = pb.lib()
    model, batch = pb.Model(os.path.join(pb.ROOT, "examples", "hopper", "hopper.xml")), ct.c_void_p()
    l.pbBatch_Create(model.ctx, model.ptr, ct.byref(l.pbBatchOptions(worlds=2)), ct.byref(batch))
    with pytest.raises(pb.Error, match="pbBatch_Rollout.*-1 steps"):
        l.pbBatch_Rollout(batch, None, None, 0, -1, None, None)
    l.pbBatch_Destroy(batch)


def test_what_no_header_declares_is_an_error():
    with pytest.raises(AttributeError, match="no public header declares pbStep_Run"):
        pb.lib().pbStep_Run
