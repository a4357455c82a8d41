"""What a Python program under ebb may ask of it, and tell it: the functions of ebb.h (`man 3 ebb`), by ctypes.

    python3 -m ebb run -b 60% -- train.py

ebb is preloaded when a process starts, so importing this module changes nothing. In a process that is not under ebb every function does nothing, returns
an empty or zero value, and the first call says so through `logging`. No function changes a result by one bit.

Threads: any. The interpreter's lock is not held while ebb works. Streams: none is ordered by a call.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any, Union

__all__ = ["active", "budget", "device_count", "figures", "keep", "named", "paused", "set_budget", "stats", "step", "version"]

_log = logging.getLogger("ebb")
_lock = threading.Lock()
_said = False


def _load() -> ctypes.CDLL | None:
    """The library that this process has been started with; it is never loaded from here, because that would be too late."""
    library = ctypes.CDLL(None)
    try:
        library.ebb_version.restype = ctypes.c_char_p
        library.ebb_device_count.restype = ctypes.c_uint
        library.ebb_statistics_json.restype = ctypes.c_size_t
        library.ebb_statistics_json.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        library.ebb_budget.restype = ctypes.c_size_t
        library.ebb_budget_set.argtypes = [ctypes.c_int, ctypes.c_char_p]
        library.ebb_decisions_pause.restype = library.ebb_decisions_resume.restype = None
        library.ebb_step_mark.restype = None
        library.ebb_range_push.restype = library.ebb_range_pop.restype = None
        library.ebb_range_push.argtypes = [ctypes.c_char_p]
        library.ebb_memory_keep.argtypes = library.ebb_memory_release.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    except AttributeError:
        return None
    return library


_library = _load()


def _there() -> ctypes.CDLL | None:
    """The library; None, said once, if there is none."""
    global _said
    if _library is None:
        with _lock:
            if not _said:
                _log.warning("this process is not under ebb: start it with `python3 -m ebb run -b SIZE -- PROGRAM`. What it tells ebb has no effect.")
            _said = True
    return _library


def _check(result: int, what: str) -> None:
    if result == 0:
        return
    kinds: dict[int, type[Exception]] = {errno.EINVAL: ValueError, errno.ENOMEM: MemoryError}
    raise kinds.get(-result, RuntimeError)(f"{what}: {os.strerror(-result)}")


def active() -> bool:
    """Whether this process is under ebb. Says nothing if not."""
    return _library is not None


def version() -> str:
    """Of the library that is preloaded; "" if none is."""
    library = _there()
    return library.ebb_version().decode() if library else ""


def device_count() -> int:
    """How many devices ebb serves in this process by now: each from its first context on."""
    library = _there()
    return library.ebb_device_count() if library else 0


def stats() -> dict[str, Any]:
    """All figures as of now, by the keys of docs/statistics.md, with the lists "devices" and "variants"; what belongs to the last plan is its summary."""
    library = _there()
    if not library:
        return {}
    room = 16384
    while True:
        text = ctypes.create_string_buffer(room)
        length = library.ebb_statistics_json(text, room)
        if length < room:
            found: dict[str, Any] = json.loads(text.value or b"{}")
            return found
        room = 2 * length


def budget(device: int = 0) -> int:
    """Bytes of device memory that the process may hold, everything included; 0 if the device (CUDA's number) is not served."""
    library = _there()
    return library.ebb_budget(device) if library else 0


def set_budget(size: Union[int, str], device: int | None = None) -> None:
    """Another budget for a device, or all of them and those to come (None): bytes, "20GiB", or "60%" of the device. What is beyond it has left when this
    returns; the device is waited for. ValueError: no such size. MemoryError: more than that has to stay, and the budget holds for all else. RuntimeError:
    ebb does not serve the device, or a stream is being captured."""
    library = _there()
    if library:
        _check(library.ebb_budget_set(-1 if device is None else device, str(size).encode()), f"set_budget({size!r})")


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Without plans, and without learning, from the end of the step under way on: for what repeats nothing. May be nested."""
    library = _there()
    if library:
        library.ebb_decisions_pause()
    try:
        yield
    finally:
        if library:
            library.ebb_decisions_resume()


def _range_of(thing: Any) -> tuple[int, int]:
    """Address and bytes of a tensor's storage, of anything with __cuda_array_interface__, or of (address, bytes)."""
    if isinstance(thing, tuple):
        return thing
    if hasattr(thing, "untyped_storage"):
        storage = thing.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    if hasattr(thing, "__cuda_array_interface__"):
        interface = thing.__cuda_array_interface__
        if interface.get("strides") is not None:
            raise TypeError("keep: the array has gaps: give (address, bytes)")
        size = int(interface["typestr"][2:])
        for extent in interface["shape"]:
            size *= extent
        return interface["data"][0], size
    raise TypeError(f"keep: {type(thing).__name__} has no device memory that is known: give (address, bytes)")


@contextlib.contextmanager
def keep(*things: Any) -> Iterator[None]:
    """The tensors are on the device, and stay there: plans leave them there, too. MemoryError: the budget has no room for them. RuntimeError: no memory that ebb
    serves (a tensor on the host)."""
    library = _there()
    kept: list[tuple[int, int]] = []
    try:
        for thing in things if library else ():
            address, size = _range_of(thing)
            if not size:
                continue
            _check(library.ebb_memory_keep(address, size), "keep")  # type: ignore[union-attr]
            kept.append((address, size))
        yield
    finally:
        for address, size in kept:
            library.ebb_memory_release(address, size)  # type: ignore[union-attr]


def step() -> None:
    """A step begins here. A hint, which most programs need not give; once given, it has to come with every step."""
    library = _there()
    if library:
        library.ebb_step_mark()


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """What this thread launches meanwhile has a name in reports."""
    library = _there()
    if library:
        library.ebb_range_push(name.encode())
    try:
        yield
    finally:
        if library:
            library.ebb_range_pop()


def figures(before: dict[str, Any] | None = None) -> dict[str, float]:
    """What trainers show beside the loss, counts since `before` (an earlier result of stats()). {} in a process that is not under ebb."""
    now = stats()
    if not now:
        return {}

    def since(key: str) -> int:
        return int(now[key] - (before or {}).get(key, 0))

    return {
        "ebb/steps_driven": since("steps_driven"),
        "ebb/device_gib": now["mapped_bytes"] / 2**30,
        "ebb/host_gib": now["host_bytes"] / 2**30,
        "ebb/copied_gib": (since("bytes_out") + since("bytes_in")) / 2**30,
        "ebb/replays": since("replays"),
        "ebb/waited_ms": (since("stall_ns") + since("driven_stall_ns")) / 1e6,
    }
