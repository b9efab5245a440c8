"""Flags from the settings of mechanisms: a setting's type and description are its flag's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_args

import typer

from scenarios.mechanisms import all_settings

F = TypeVar("F", bound=Callable[..., None])


def with_settings(*names: str) -> Callable[[F], F]:
    """Let a command take a flag for each setting of any mechanism, or for those named; it gets them in ``settings``.

    The command has a last parameter ``**settings``, which holds None where a flag was not given.
    """

    def decorate(command: F) -> F:
        signature = inspect.signature(command, eval_str=True)
        given = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        more = [_flag(name, field) for name, field in all_settings().items() if not names or name in names]
        command.__signature__ = signature.replace(parameters=[*given, *more])  # type: ignore[attr-defined] # typer reads it
        command.__annotations__ = {one.name: one.annotation for one in (*given, *more)}
        return command

    return decorate


def _flag(name: str, field: Any) -> inspect.Parameter:
    parts = _parts(field.annotation)
    kinds = {part for part in parts if part in (int, float)}
    kind = kinds.pop() if len(kinds) == 1 and not any(isinstance(part, str) for part in parts) else str
    annotation = Annotated[kind | None, typer.Option(help=field.description)]  # type: ignore[valid-type] # made here
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _parts(annotation: Any) -> list[Any]:
    """Return the types and the literal values that an annotation is made of."""
    inside = get_args(annotation)
    return [annotation, *(part for one in inside for part in _parts(one))]
