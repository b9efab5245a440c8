"""How inner loops are compiled: typed for the type checker, cached on disk, free of the interpreter lock."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property, update_wrapper
from threading import Lock
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

int32, int64, uint8, uint16, uint32, uint64 = np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64
"""Types of numbers in kernels, which numba takes for its own."""


def private_options(**options: bool) -> dict[str, bool]:
    """Return those of some options that numba has."""
    # private in numba, tried with its version 0.68, as is what `_load_without_scipy` does; nothing else here is
    with suppress(ImportError):
        from numba.core.options import DefaultOptions  # noqa: PLC0415 (it may go)

        return {name: value for name, value in options.items() if hasattr(DefaultOptions, name)}
    return {}


P = ParamSpec("P")
R = TypeVar("R")

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
    return _compile(function, _nrt=False)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile into each of its callers what borrows arrays, too, so that a loop around it can become vector code."""
    # LLVM puts it there, not numba: it is typed once and not anew in each caller, which takes half the time to compile
    # and gives the same machine code or better.
    return _compile(function, _nrt=False, forceinline=True)


def _compile(function: Callable[P, R], **options: bool) -> Callable[P, R]:
    return cast("Callable[P, R]", Kernel(function, options))


class Kernel:
    """A function that is compiled when it, or a kernel that calls it, is first called, and loads numba only then."""

    def __init__(self, function: Callable[..., Any], options: dict[str, bool]) -> None:
        update_wrapper(self, function)
        self.py_func, self._options = function, options

    @cached_property
    def dispatcher(self) -> Any:
        """What numba compiles it with."""
        import numba  # noqa: PLC0415 (kernels stand beside settings, which load nothing numerical)

        _tell_numba()
        settings: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
        # C code calls no kernel, and its entry would take a tenth of the time to compile
        settings |= private_options(no_cfunc_wrapper=True, **self._options)
        return numba.njit(**settings)(self.py_func)

    @property
    def signatures(self) -> list[Any]:
        """What it was compiled for."""
        return list(self.dispatcher.signatures) if "dispatcher" in vars(self) else []

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        return self.dispatcher(*arguments)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__


_LOADING = Lock()  # Threads may call their first kernels at the same time


def _load_without_scipy() -> None:
    """Let numba take it for granted that there is scipy, which we require: where it looks, it loads linear algebra."""
    # A third of what a process pays for its first kernel, whether or not any kernel multiplies matrices; one that does
    # still loads it, when it is compiled.
    with _LOADING, suppress(ImportError, AttributeError):
        from numba.np import linalg  # noqa: PLC0415 (as above)

        look, linalg.ensure_blas = linalg.ensure_blas, lambda: None
        try:
            from numba.np import arraymath  # noqa: F401, PLC0415 (as above)
        finally:
            linalg.ensure_blas = look


@cache
def _tell_numba() -> None:
    """Let kernels call kernels: numba looks a global of another type up here."""
    _load_without_scipy()
    from numba.core import types  # noqa: PLC0415 (as above)
    from numba.extending import typeof_impl  # noqa: PLC0415

    @typeof_impl.register(Kernel)
    def _(kernel: Kernel, _: Any) -> Any:
        return types.Dispatcher(kernel.dispatcher)
