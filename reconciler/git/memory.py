"""Objects that exist in memory alone: what a merge writes never reaches a disk.

A merge makes new blobs and trees, and libgit2 puts them into the repository's object store. Its mempack backend takes
them instead, for which pygit2 has no binding; so it is called here by ctypes, in the very library that pygit2 loaded.
Two traps:

- mempack reads an object by its full id only, and where pygit2 reads contents it asks by prefix, even when it has all
  digits. So what was written is read back here. To give mempack a function of ours for that would take memory that can
  be both written and run, which the service's unit forbids.
- Before an object is written, the one that is stored already is "freshened": its file's time is set, in a repository
  that is not ours. So the stores on disk lose that function.

The structure is that of git2/sys/odb_backend.h, the same in every libgit2 since 1.2.
"""

import contextlib
import ctypes
import functools
import sys
from collections.abc import Iterator
from typing import Any

import pygit2

from reconciler.model.errors import Refused

FIRST = 999  # before every store on disk
KNOWN_VERSION = 1  # of the structure below
UNABLE = "this build of libgit2 cannot merge in memory; install pygit2 from its wheel"

_Any = ctypes.c_void_p


class _Backend(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint),
        ("odb", _Any),
        ("read", _Any),
        ("read_prefix", _Any),
        ("read_header", _Any),
        ("write", _Any),
        ("writestream", _Any),
        ("readstream", _Any),
        ("exists", _Any),
        ("exists_prefix", _Any),
        ("refresh", _Any),
        ("foreach", _Any),
        ("writepack", _Any),
        ("writemidx", _Any),
        ("freshen", _Any),
        ("free", _Any),
    )


_BackendPointer = ctypes.POINTER(_Backend)

# By name: what each takes, and what it gives if not 0 or an error's number.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "git_repository_odb": (ctypes.POINTER(_Any), _Any),
    "git_odb_num_backends": (_Any,),
    "git_odb_get_backend": (ctypes.POINTER(_BackendPointer), _Any, ctypes.c_size_t),
    "git_odb_add_backend": (_Any, _BackendPointer, ctypes.c_int),
    "git_odb_free": (_Any,),
    "git_odb_read": (ctypes.POINTER(_Any), _Any, ctypes.c_char_p),
    "git_odb_object_data": (_Any,),
    "git_odb_object_size": (_Any,),
    "git_odb_object_free": (_Any,),
    "git_mempack_new": (ctypes.POINTER(_BackendPointer),),
}
_GIVEN = {
    "git_odb_num_backends": ctypes.c_size_t,
    "git_odb_free": None,
    "git_odb_object_data": _Any,
    "git_odb_object_size": ctypes.c_size_t,
    "git_odb_object_free": None,
}


class MemoryObjects:
    """What is written to one repository from now on, until it is freed.

    `sizes` is for whoever keeps a few words in place of a large file: the file's bytes, by the id of the words. Raises
    Refused when the installed libgit2 cannot keep anything.
    """

    def __init__(self, repository: pygit2.Repository) -> None:
        self._repository = repository
        self.sizes: dict[str, int] = {}
        memory = _BackendPointer()
        with _store(repository) as store:
            _check(_library().git_mempack_new(ctypes.byref(memory)))
            if memory.contents.version != KNOWN_VERSION:
                raise Refused(UNABLE)
            _forget_times(store)
            _check(_library().git_odb_add_backend(store, memory, FIRST))  # which frees it with the store

    def read(self, object_id: str) -> bytes:
        """The content of an object, in memory or stored. Raises KeyError when there is none."""
        library, found = _library(), _Any()
        with _store(self._repository) as store:
            if library.git_odb_read(ctypes.byref(found), store, bytes.fromhex(object_id)):
                raise KeyError(object_id)
            try:
                return ctypes.string_at(library.git_odb_object_data(found), library.git_odb_object_size(found))
            finally:
                library.git_odb_object_free(found)


@contextlib.contextmanager
def _store(repository: pygit2.Repository) -> Iterator[ctypes.c_void_p]:
    """The object store of a repository, of which we have a share for a while."""
    store = _Any()
    # What pygit2 gives is the pointer as bytes.
    pointer = int.from_bytes(bytes(repository._pointer), sys.byteorder)
    _check(_library().git_repository_odb(ctypes.byref(store), pointer))
    try:
        yield store
    finally:
        _library().git_odb_free(store)


def _forget_times(store: ctypes.c_void_p) -> None:
    for number in range(_library().git_odb_num_backends(store)):
        stored = _BackendPointer()
        _check(_library().git_odb_get_backend(ctypes.byref(stored), store, number))
        stored.contents.freshen = None


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(pygit2._pygit2.__file__)  # a name is looked up in what it is linked to as well
    try:
        for name, taken in _FUNCTIONS.items():
            getattr(library, name).argtypes = taken
    except AttributeError:
        raise Refused(UNABLE) from None
    for name, given in _GIVEN.items():
        getattr(library, name).restype = given
    # Whether each object that is named exists is ours to know: a partial clone lacks files that nobody asks for.
    pygit2.settings.enable_strict_object_creation(False)
    return library


def _check(error: int) -> None:
    if error:
        raise Refused(UNABLE)
