"""Flags: those that commands share, and those that the fields of scenarios describe."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeGuard, TypeVar, cast, get_args

import typer
from pydantic import BeforeValidator, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from coordinator.protocol.errors import BlindrecError
from scenarios.backends.selection import AUTO, check_backend, open_session
from scenarios.backends.session import Backend
from scenarios.config.files import FileName, Number, PlainText, Whole, brief, nameable
from scenarios.show.records import STDOUT, check_figure, check_target, deliver, deliver_figure

F = TypeVar("F", bound=Callable[..., None])
BackendName = Annotated[
    str, typer.Option(help="auto (Ray with --address or for more than 10 s of work), ray or inprocess.")
]
Address = Annotated[str | None, typer.Option(help="Ray head to join, host:port [start Ray here].")]
Workers = Annotated[
    int | None,
    typer.Option(help="How many device blocks or sweep runs work in parallel [all CPUs; fewer for a small run]."),
]
Cohort = Annotated[int | None, typer.Option(help="Devices per cohort; a cohort is one actor [devices / workers].")]
Metrics = Annotated[
    bool,
    typer.Option("--metrics", help="On Ray: export rounds, answers, refusals and spent epsilon to Prometheus."),
]
Repeat = Annotated[int, typer.Option(help="Run this many seeds, starting at --seed; report means with intervals.")]
Out = Annotated[
    Path | None, typer.Option(help="New folder for result, scenario, versions and tables; or a run to resume.")
]
Json = Annotated[str | None, typer.Option(help="File for the JSON result, or - for standard output.")]
Figure = Annotated[Path | None, typer.Option(help="File for a picture of the result: .svg, .pdf or .png.")]
Setting = Annotated[list[str] | None, typer.Option(help="Your own design: a setting as name=value; repeatable.")]
With = Annotated[
    list[str] | None, typer.Option("--with", help="Your own design: a package it imports, to send to the workers too.")
]
AllowCode = Annotated[
    bool,
    typer.Option(
        "--allow-code",
        help="Import the design or policy that the file names as package.module:Name. It is a program: read it first.",
    ),
]
Given = Annotated[
    Path | None, typer.Argument(help="TOML file of these options, or a finished run's scenario.json; flags win.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Files that a result is written to; a file that cannot be written is refused before anything runs."""

    json: Json = None
    figure: Figure = None

    def __post_init__(self) -> None:
        check_target(self.json)
        check_figure(self.figure)

    def deliver(
        self,
        family: str,
        record: dict[str, Any],
        show: Callable[[], object],
        tables: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """Write a record as JSON, show it where standard output is free, and draw the picture of its family."""
        deliver(self.json, record)
        if self.json != STDOUT:
            show()
        sys.stdout.flush()
        deliver_figure(self.figure, family, record, tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendFlags:
    """Where a command computes."""

    backend: BackendName = AUTO
    address: Address = None
    workers: Workers = None

    def __post_init__(self) -> None:
        check_backend(self.backend, self.workers)

    def session(
        self, work: Callable[[], float], *, metrics: bool = False, sharing: bool = False
    ) -> AbstractContextManager[Backend]:
        """Open the named backend, or one chosen by the predicted work; see `open_session`."""
        return open_session(
            self.backend, address=self.address, workers=self.workers, metrics=metrics, work=work, sharing=sharing
        )


def is_group(annotation: Any) -> TypeGuard[type[Any]]:
    """Whether a parameter stands for several flags: the fields of its dataclass."""
    return isinstance(annotation, type) and is_dataclass(annotation)


def flags_of(signature: inspect.Signature) -> Iterator[inspect.Parameter]:
    """Yield the parameters that become a command's flags, with a dataclass replaced by its fields."""
    for parameter in signature.parameters.values():
        if is_group(parameter.annotation):
            yield from flags_of(inspect.signature(parameter.annotation, eval_str=True))
        else:
            yield parsed(parameter).replace(kind=inspect.Parameter.KEYWORD_ONLY)


TYPES: dict[Any, Any] = {int: Whole, float: Number, str: PlainText, (str, "json"): FileName, (str, "grid"): FileName}
"""The parser of a flag by its type, or by its type and name; the same for every command."""


def parsed(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a command's parameter with the parser that `TYPES` names, and a check if it is a path."""
    base = parameter.annotation
    while inside := get_args(base):
        base = inside[0]
    kind = TYPES.get((base, parameter.name), TYPES.get(base))
    if not hasattr(parameter.annotation, "__metadata__") or (kind is None and base is not Path):
        return parameter
    plain, option = get_args(parameter.annotation)
    option = copy(option)
    if kind is None:  # whose help would not call it a path if a parser read it
        option.callback = _check_paths
    else:
        option.parser = _parser(parameter.name, kind)
    return parameter.replace(annotation=Annotated[plain, option])


def _check_paths(parameter: typer.CallbackParam, value: Any) -> Any:
    for path in value if isinstance(value, (list, tuple)) else [value]:
        if path is not None:
            nameable(path, str(parameter.name))
    return value


def _parser(name: str, kind: Any) -> Callable[[Any], Any]:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def parse(value: Any) -> Any:
        try:
            return adapter.validate_python(value, context=name)
        except ValidationError as error:
            first = error.errors()[0]
        if first["type"] == "value_error":  # InputError is a ValueError, which the command-line library says otherwise
            raise BlindrecError(str(first["ctx"]["error"]))
        raise typer.BadParameter(f"{first['msg']} (it is {brief(first['input'])})")

    return parse


def with_fields(fields: Mapping[str, FieldInfo], leave_out: frozenset[str] = frozenset()) -> Callable[[F], F]:
    """Replace a command's last parameter ``**others`` by a flag for each field."""

    def decorate(command: F) -> F:
        signature = inspect.signature(command, eval_str=True)
        every = [_flag(name, field) for name, field in fields.items()] + [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD and parameter.name not in leave_out
        ]
        # What may be given by its place comes first, then the fields, then what else has names only.
        parameters = sorted(every, key=lambda parameter: parameter.kind)
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # typer reads it
        return command

    return decorate


def _flag(name: str, field: FieldInfo) -> inspect.Parameter:
    option = typer.Option(f"--{name.replace('_', '-')}", help=field.description)  # a truth has no --no- beside it
    annotation = Annotated[_kind(field) | None, option]  # type: ignore[valid-type] # made here
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _kind(field: FieldInfo) -> type:
    """Return the type of a flag: a path, number or boolean, else text that the field itself parses."""
    annotation: Any = field.annotation
    read = list(field.metadata)
    while inside := get_args(annotation):
        if hasattr(annotation, "__metadata__"):
            read += annotation.__metadata__
        elif type(None) not in inside:
            return str
        annotation = inside[0]
    if annotation is Path:
        return Path
    plain = annotation in (bool, int, float) and not any(isinstance(validator, BeforeValidator) for validator in read)
    return cast("type", annotation) if plain else str
