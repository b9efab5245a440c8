"""How inner loops are compiled: typed for the type checker, cached on disk, free of the interpreter lock."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np


def private_options(**options: bool) -> dict[str, bool]:
    """Return those of some options that numba has."""
    # private in numba, tried with its version 0.68; nothing else here is
    with suppress(ImportError):
        from numba.core.options import DefaultOptions  # noqa: PLC0415 (it may go)

        return {name: value for name, value in options.items() if hasattr(DefaultOptions, name)}
    return {}


P = ParamSpec("P")
R = TypeVar("R")
_BORROWING = private_options(_nrt=False)  # counts no references
# C code calls no kernel, and its entry would take a tenth of the time to compile
_NO_ENTRY = private_options(no_cfunc_wrapper=True)

ZERO = cast("int", np.int64(0))
"""Where kernels begin to count: what is called with a written 0 is compiled twice, for that number and for any."""


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` with numba on its first call."""
    # A division by 0 gives what IEEE 754 says, infinity or no number, and raises nothing: an error that depends on
    # private numbers would reveal them. Callers divide whole numbers by public ones above 0 only.
    return _compile(function)


def borrowing(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that makes no array and returns none: it borrows its caller's and counts no references."""
    # Otherwise numba counts references to each array that a function is given or takes a row of, with an atomic
    # addition in every call. Loops over devices, and what they call, are borrowing: where a call is one device's, those
    # additions took as long as a third of its work.
    return _compile(function, **_BORROWING)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile into each of its callers what borrows arrays, too, so that a loop around it can become vector code."""
    # LLVM puts it there, not numba: it is typed once and not anew in each caller, which takes half the time to compile
    # and gives the same machine code or better.
    return _compile(function, **_BORROWING, forceinline=True)


def _compile(function: Callable[P, R], **options: bool) -> Callable[P, R]:
    settings: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", **_NO_ENTRY, **options}
    return cast("Callable[P, R]", numba.njit(**settings)(function))
