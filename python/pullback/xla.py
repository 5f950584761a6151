"""Custom calls of XLA: what a compiled program of JAX calls in this process, with XLA's own buffers (python/core/xla.c)."""
from __future__ import annotations

import atexit
import functools
import hashlib
import itertools
import os
import pickle
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from .errors import ArgumentError, InputError, NotDifferentiableError, StepError, UnsupportedError

if TYPE_CHECKING:
    from .arrays import Array
    Short = Callable[[Sequence[Any], Sequence[Any]], bool] | None

TARGET = "pullback"
_INTERNAL = 13
_CODES = ((StepError, 11), (NotDifferentiableError, 9), (UnsupportedError, 12), ((ArgumentError, InputError), 3), (MemoryError, 8))  # XLA's

# Hosts by token. A compiled program owns those that it calls; a token says what a host computes, so that a program out of a cache of
# compiled programs finds in another process what it found in this one.
_hosts: weakref.WeakValueDictionary[str, Host] = weakref.WeakValueDictionary()
_lock, _others = threading.Lock(), itertools.count()


class Host:
    """What one custom call does: work(*inputs) gives its outputs, all arrays of stated shapes and types."""

    def __init__(self, work: Callable[..., Sequence[Array]], inputs: Sequence[Any], outputs: Sequence[Any], short: Short = None) -> None:
        """inputs, outputs: what has a shape and a dtype. short(inputs, outputs): from memories into memories; whether it was done."""
        self._work, self._short = work, short
        self._inputs, self._outputs = ([(a.shape, np.dtype(a.dtype)) for a in arrays] for arrays in (inputs, outputs))

    def run(self, inputs: Sequence[memoryview], outputs: Sequence[memoryview]) -> None:
        """From XLA's buffers into XLA's buffers; none is kept: inputs are copied."""
        if self._short is not None and self._short(inputs, outputs):
            return
        values = [np.ndarray(shape, dtype, buffer).copy() for buffer, (shape, dtype) in zip(inputs, self._inputs, strict=True)]
        found = self._work(*values)
        for buffer, (shape, dtype), value in zip(outputs, self._outputs, found, strict=True):
            np.ndarray(shape, dtype, buffer)[...] = value


def host(content: object, work: Callable[..., Sequence[Array]], inputs: Sequence[Any], outputs: Sequence[Any], short: Short = None) -> tuple[str, Host]:
    """The token and the host of a call; content: all that its work depends on. The same host while one of that content lives."""
    try:
        token = hashlib.blake2b(pickle.dumps(content), digest_size=16).hexdigest()
    except (TypeError, AttributeError, pickle.PicklingError, UnsupportedError):  # a function, a model without bytes
        token = f"{os.getpid()}-{os.urandom(8).hex()}-{next(_others)}"
    with _lock:
        found = _hosts.get(token)
        if found is None:
            found = _hosts[token] = Host(work, inputs, outputs, short)
    return token, found


def _find(token: str) -> Host:
    return _hosts[token]


def _call(host: Host, inputs: tuple[memoryview, ...], outputs: tuple[memoryview, ...]) -> tuple[int, bytes] | None:
    try:
        host.run(inputs, outputs)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001: nothing may pass through XLA
        code = next((code for kind, code in _CODES if isinstance(error, kind)), _INTERNAL)
        return code, f"{type(error).__name__}: {error}".replace("\0", " ").encode()
    return None


@functools.cache
def targets() -> dict[str, Any] | None:
    """Handlers and the type of their state as JAX registers them; None where the extension was built without XLA's header."""
    found = _core.xla_targets(_find, _call)
    if found is not None:
        atexit.register(_end)
    return found


def _end() -> None:
    """Before Python ends: calls that are going on come to their end, and there are no others."""
    while _core.xla_close():
        time.sleep(1e-3)


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
