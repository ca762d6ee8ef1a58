"""Hearing of sqlite's own syncs: a shim between sqlite and its file layer (VFS), in this process only.

The standard library has no way to give sqlite another VFS, but the library that `sqlite3` itself is linked to has, and
`ctypes` finds it there. The shim is the default VFS with another `xOpen`, which gives each file a table of methods with
another `xSync`; all else is sqlite's. sqlite syncs a directory only after opening it with its `openDirectory`, so that
is heard of as well. Where the library cannot be reached (one that is linked in statically), `unavailable` says so.
"""

from __future__ import annotations

import ctypes
import os
import sys
import traceback
from collections.abc import Callable
from functools import cache
from typing import Any

_Address = ctypes.c_void_p
_IOERR = 10

# The name is an address and no string: sqlite keeps more behind its end, and must get its own back.
_OPEN = ctypes.CFUNCTYPE(ctypes.c_int, _Address, _Address, _Address, ctypes.c_int, _Address)
_SYNC = ctypes.CFUNCTYPE(ctypes.c_int, _Address, ctypes.c_int)
_OPEN_DIRECTORY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, _Address)
_SET_CALL = ctypes.CFUNCTYPE(ctypes.c_int, _Address, ctypes.c_char_p, _Address)
_GET_CALL = ctypes.CFUNCTYPE(_Address, _Address, ctypes.c_char_p)


class _Vfs(ctypes.Structure):
    """`sqlite3_vfs`, version 3: https://www.sqlite.org/c3ref/vfs.html"""

    _fields_ = (
        ("version", ctypes.c_int),
        ("file_bytes", ctypes.c_int),
        ("path_bytes_max", ctypes.c_int),
        ("next", _Address),
        ("name", ctypes.c_char_p),
        ("own", _Address),
        ("open", _Address),
        ("others", _Address * 12),
        ("set_system_call", _Address),
        ("get_system_call", _Address),
        ("next_system_call", _Address),
    )


# `sqlite3_io_methods`: a version, and so many functions by version; https://www.sqlite.org/c3ref/io_methods.html
_METHODS = {1: 12, 2: 16, 3: 18}
_METHODS_SYNC = 4


class _Methods(ctypes.Structure):
    _fields_ = (("version", ctypes.c_int), ("functions", _Address * max(_METHODS.values())))


@cache
def unavailable() -> str | None:
    """Why sqlite cannot be watched here, None if it can."""
    try:
        vfs = _default_vfs()
    except (OSError, AttributeError, ImportError) as error:
        return f"the library that sqlite3 uses cannot be reached: {error}"
    if vfs is None or vfs.version < 3:
        return "the library that sqlite3 uses has no default VFS of version 3"
    return None


def tell(synced: Callable[[str], None]) -> None:
    """Have `synced(path)` called for every file or directory that sqlite syncs, in this process from now on."""
    if problem := unavailable():
        raise RuntimeError(problem)
    _shim.append(_Shim(synced))


_shim: list[Any] = []  # what C calls must not be collected


def _library() -> ctypes.CDLL:
    import _sqlite3

    return ctypes.CDLL(_sqlite3.__file__)


def _default_vfs() -> _Vfs | None:
    find = _library().sqlite3_vfs_find
    find.restype, find.argtypes = ctypes.POINTER(_Vfs), (ctypes.c_char_p,)
    found = find(None)
    return found.contents if found else None


class _Shim:
    def __init__(self, synced: Callable[[str], None]) -> None:
        vfs = _default_vfs()
        if vfs is None:
            raise RuntimeError("sqlite has no default VFS")
        self._synced = synced
        self._vfs = vfs
        self._open = _OPEN(vfs.open)
        self._paths: dict[int, str] = {}
        self._tables: dict[int, tuple[_Methods, Any]] = {}
        self._callbacks: list[Any] = [_OPEN(self._opened), _OPEN_DIRECTORY(self._opened_directory)]
        self._shim = _Vfs()
        ctypes.memmove(ctypes.byref(self._shim), ctypes.byref(vfs), ctypes.sizeof(_Vfs))
        self._shim.name = b"watched"
        self._shim.open = ctypes.cast(self._callbacks[0], _Address)
        call = b"openDirectory"
        self._open_directory = _OPEN_DIRECTORY(_GET_CALL(vfs.get_system_call)(ctypes.addressof(vfs), call))
        set_call = _SET_CALL(vfs.set_system_call)
        register = _library().sqlite3_vfs_register
        register.argtypes = (_Address, ctypes.c_int)
        if set_call(ctypes.addressof(vfs), call, ctypes.cast(self._callbacks[1], _Address)) or register(
            ctypes.addressof(self._shim), 1
        ):
            raise RuntimeError("sqlite does not take another VFS")

    def _opened(self, _: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        status: int = self._open(ctypes.addressof(self._vfs), name, file, flags, out)
        place = _Address.from_address(file)
        if place.value:
            self._paths[file] = os.fsdecode(ctypes.string_at(name)) if name else ""
            place.value = ctypes.addressof(self._table(place.value)[0])
        return status

    def _table(self, address: int) -> tuple[_Methods, Any]:
        """The methods at `address` with another `xSync`; each table is made once."""
        if address not in self._tables:
            given, table = _Methods.from_address(address), _Methods()
            count = _METHODS.get(given.version, max(_METHODS.values()))
            ctypes.memmove(ctypes.byref(table), address, _Methods.functions.offset + count * ctypes.sizeof(_Address))
            sync = _SYNC(given.functions[_METHODS_SYNC])

            def telling(file: int, flags: int) -> int:
                status: int = sync(file, flags)
                return status or self._tell(self._paths[file])

            callback = _SYNC(telling)
            table.functions[_METHODS_SYNC] = ctypes.cast(callback, _Address)
            self._tables[address] = (table, callback)
        return self._tables[address]

    def _opened_directory(self, path: bytes, out: int) -> int:
        # What sqlite does with it, and does at once, is to sync it.
        status: int = self._open_directory(path, out)
        return status or self._tell(os.path.dirname(os.fsdecode(path)))

    def _tell(self, path: str) -> int:
        """0, or an error that sqlite reports: an exception cannot go through C, and must not be lost there."""
        try:
            if path:
                self._synced(path)
            return 0
        except BaseException:
            traceback.print_exc(file=sys.stderr)
            return _IOERR
