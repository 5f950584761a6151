"""What custom calls of XLA do here, without XLA: from memories into memories."""
import gc
import pickle
import struct
import types

import numpy as np
import pytest

import pullback as pb
from pullback import xla


def shaped(*shape, dtype=np.float64):
    return types.SimpleNamespace(shape=shape, dtype=dtype)


def doubles(*values):
    return bytearray(struct.pack(f"{len(values)}d", *values))


def test_from_memories_into_memories():
    seen = []

    def work(a, b):
        seen.append(a)
        return a @ b, a[:, :0]
    host = xla.Host(work, [shaped(2, 2), shaped(2, dtype=np.float32)], [shaped(2, dtype=np.float32), shaped(2, 0)])
    a, b, out = doubles(1, 2, 3, 4), bytearray(struct.pack("2f", 1, .5)), bytearray(8)
    host.run([memoryview(a).toreadonly(), memoryview(b)], [memoryview(out), memoryview(bytearray())])
    assert struct.unpack("2f", out) == (2, 5)
    a[:] = bytes(32)  # XLA's memory is not ours after the call
    assert seen[0].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("error, code", [(pb.StepError("far out"), 11), (pb.ArgumentError("no"), 3), (pb.UnsupportedError("second"), 12),
                                         (pb.NotDifferentiableError("tie"), 9), (MemoryError("full"), 8), (ZeroDivisionError("one"), 13)])
def test_failures_have_codes_and_texts(error, code):
    def work():
        raise error
    assert xla._call(xla.Host(work, [], []), (), ()) == (code, f"{type(error).__name__}: {error}".encode())


def test_interrupts_go_through():
    def work():
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        xla._call(xla.Host(work, [], []), (), ())


def test_a_host_is_known_by_its_content():
    work = lambda: ()
    token, host = xla.host(("a", 1), work, [], [])
    assert xla.host(("a", 1), work, [], [])[1] is host and xla._find(token) is host
    assert xla.host(("a", 2), work, [], [])[0] != token
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        pickle.dumps(work)
    other = [xla.host(("a", work), work, [], []) for _ in range(2)]  # what has no text is known by nobody else
    assert other[0][0] != other[1][0]
    del host
    gc.collect()
    with pytest.raises(KeyError):
        xla._find(token)
