"""Custom mechanisms and policies: imported by path, and identified by a digest of their source files and settings."""

import ast
import hashlib
import importlib
import json
import linecache
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from pydantic import ValidationError

from coordinator.protocol.custom import Mechanism, methods_missing, require_whole_class, settings_of
from coordinator.protocol.errors import InputError, PolicyError


def import_object(path: str, what: str) -> Any:
    """Return the object that ``package.module:Name`` names."""
    module_name, _, name = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        remedy = f"modules are looked for in the working directory, {here}, and where Python finds packages"
        if module_name.endswith(".py"):
            remedy = f"name the module without .py, {module_name.removesuffix('.py')}:{name}"
        raise PolicyError(f"{what} {path} cannot be imported: {type(error).__name__}: {error}; {remedy}") from error
    target = getattr(module, name, None)
    if not callable(target):
        complaint = f"{what} {path}: module {module_name} has nothing called {name} that makes a {what}"
        public = {key: value for key, value in vars(module).items() if callable(value) and not key.startswith("_")}
        public_names = [key for key, value in public.items() if getattr(value, "__module__", None) == module.__name__]
        raise PolicyError(complaint + (f"; it has {', '.join(public_names)}" if public_names else ""))
    return target


def import_helpers(names: Sequence[str]) -> tuple[str, ...]:
    """Import packages that are sent with a mechanism; return their names."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            raise InputError(f"with is {name}, which cannot be imported: {type(error).__name__}: {error}") from error
    return tuple(names)


def import_class(path: str) -> type[Mechanism]:
    """Return the class of mechanisms that ``package.module:Name`` names."""
    kind = import_object(path, "design")
    if not (isinstance(kind, type) and issubclass(kind, Mechanism)):
        raise InputError(f"design {path} is no mechanism; derive the class from blindrec.Mechanism")
    if missing := methods_missing(kind):
        raise InputError(f"design {path} lacks {', '.join(missing)}; see Mechanism")
    return kind


def build_mechanism(kind: type[Mechanism], settings: Mapping[str, object]) -> Mechanism:
    """Return a mechanism of a class, with settings read as it annotates them."""
    names = kind.model_fields
    if strange := sorted(settings.keys() - names):
        choices = f"it has {', '.join(sorted(names.keys() - {'helpers'})) or 'none'}"
        raise InputError(f"design {kind.__name__} has no setting {strange[0]}; {choices}")
    try:
        mechanism = kind.model_validate(dict(settings))
    except ValidationError as error:
        wrong, *_ = error.errors()
        if not wrong["loc"]:
            raise InputError(f"design {kind.__name__} cannot be made: {wrong['msg']}") from error
        setting = f"setting {wrong['loc'][0]} of design {kind.__name__}"
        raise InputError(f"{setting} is {wrong['input']!r}: {wrong['msg']}") from None
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"design {kind.__name__} cannot be made: {type(error).__name__}: {error}") from error
    return require_whole_class(mechanism)


def read_settings(pairs: Sequence[str]) -> dict[str, str]:
    """Return settings as the command line writes them, ``name=value`` each."""
    settings: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier() or name in settings:
            raise InputError(f"setting is {pair!r}; write name=value, each name once")
        settings[name] = value
    return settings


DIGEST = 16
OURS = frozenset({"actors", "coordinator", "scenarios", "blindrec"})
INSTALLED = frozenset({"site-packages", "dist-packages"})


def identity(mechanism: Mechanism) -> str:
    """Return thirty-two hexadecimal digits: the digest of a mechanism's settings and source."""
    kind = type(mechanism)
    settings = {name: _as_json(name, value) for name, value in settings_of(mechanism).items()}
    parts = [kind.__name__, settings, code_of(kind, mechanism.helpers)]
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=DIGEST).hexdigest()


def code_of(kind: type[Mechanism], helpers: tuple[str, ...] = ()) -> str:
    """Return the digest of the source of a class and of the packages that are sent with it, which is read once."""
    sources: Mapping[tuple[str, ...], str] = vars(kind).get("sources", {})
    if not (came_by_value(kind) and helpers in sources):  # else its source is with who sent it
        kind.sources = sources = {**sources, helpers: _read(kind, helpers)}  # which travels with the class
    return sources[helpers]


def came_by_value(kind: type[Mechanism]) -> bool:
    """Whether a class was sent by another process, so that its module need not be here."""
    here: object = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        here = getattr(here, name, None)
    return here is not kind


@lru_cache(maxsize=256)
def _read(kind: type[Mechanism], helpers: tuple[str, ...]) -> str:
    for base in bases_of(kind):
        if "<locals>" in base.__qualname__:
            raise InputError(f"design {base.__name__} is made in a function; define it in a module, with settings")
    import_helpers(helpers)
    cells = [_cell_of(base) for base in bases_of(kind) if _loaded_from(base.__module__) is None]
    texts = sorted(_digest(text) for text in (*modules_of_class(kind).values(), *cells) if text.strip())
    return _digest("\n".join([*texts, *sorted(_digest(text) for name in helpers for text in _of_package(name))]))


def _digest(source: str) -> str:
    return hashlib.sha256("\n".join(source.splitlines()).encode()).hexdigest()


def _as_json(name: str, value: object) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | Fraction):
        return f"{value}" if isinstance(value, Fraction) else value.hex()
    if isinstance(value, tuple):
        return [_as_json(name, item) for item in value]
    raise InputError(f"setting {name} is a {type(value).__name__}; give a number, a text, or a tuple of them")


def bases_of(kind: type) -> tuple[type, ...]:
    """Return a class and its bases up to `Mechanism`, without blindrec's."""
    bases = kind.__mro__[: kind.__mro__.index(Mechanism)]
    return tuple(base for base in bases if base.__module__.partition(".")[0] not in OURS)


def modules_of_class(kind: type[Mechanism]) -> dict[str, str]:
    """Return the source of every module that a class is made of, by name; see `modules_of`."""
    return modules_of(
        [base.__module__ for base in bases_of(kind)], [name for base in bases_of(kind) for name in _modules_read(base)]
    )


def modules_of(roots: Iterable[str], further: Iterable[str] = ()) -> dict[str, str]:
    """Return the source of modules, and of all that these import from the folders where they lie, by name."""
    # Imports inside functions and imports of imports count, too. Python's, blindrec's and installed modules do not,
    # unless they are in the package of one of the roots; those of ``further`` are looked for beside the roots.
    files = {name: file for name in roots if (file := _loaded_from(name))}
    tops = {name.partition(".")[0] for name in files}
    # from which modules are imported by their whole names
    folders = {file.parents[name.count(".") + (file.name == "__init__.py")] for name, file in files.items()}
    folders = folders or {Path.cwd()}
    waiting, texts = [*files, *further], dict[str, str]()
    while waiting:
        name = waiting.pop()
        if name in texts:
            continue
        if file := files.get(name) or _beside(name, folders, tops):
            texts[name] = file.read_text(encoding="utf-8")
            waiting += _imported(texts[name], name, name if file.name == "__init__.py" else name.rpartition(".")[0])
    return texts


def _loaded_from(name: str) -> Path | None:
    """Return the file of an imported module's source; None if there is none, as in a notebook."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return Path(file) if file and Path(file).suffix == ".py" and Path(file).is_file() else None


def _beside(name: str, folders: Iterable[Path], tops: set[str]) -> Path | None:
    top = name.partition(".")[0]
    for folder in folders:
        if top in tops or (top not in OURS and not INSTALLED.intersection(folder.parts)):
            module_path = folder.joinpath(*name.split("."))
            for file in (module_path / "__init__.py", module_path.with_name(f"{module_path.name}.py")):
                if file.is_file():
                    return file
    return None


_ONE_PARSE = threading.Lock()
"""Python 3.11 counts the depth of trees for all threads together, and fails where two parse at a time."""


@lru_cache(maxsize=256)
def _imported(text: str, name: str, package: str) -> tuple[str, ...]:
    """Return the names of all modules that a source may import, beginning with its own packages."""
    named = [name]
    with _ONE_PARSE:
        tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            named += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    parts = [path.split(".") for path in named if path]
    return tuple(dict.fromkeys(".".join(path[:many]) for path in parts for many in range(1, len(path) + 1)))


def _cell_of(kind: type) -> str:
    """Return the cell of a notebook in which a class is defined, which one of its methods names."""
    for value in vars(kind).values():
        code = getattr(getattr(value, "__func__", value), "__code__", None)
        if code is not None and getattr(value, "__module__", "") == kind.__module__:
            cell = "".join(linecache.getlines(code.co_filename))
            if f"class {kind.__name__}" in cell:
                return cell.strip()
    raise InputError(f"the source of {kind.__name__} cannot be read; put it into a file or a notebook's cell")


def _modules_read(kind: type) -> Iterator[str]:
    """Yield the modules of the globals that the methods of a class in a notebook read."""
    for function in vars(kind).values() if _loaded_from(kind.__module__) is None else ():
        for name in function.__code__.co_names if isinstance(function, FunctionType) else ():
            value = function.__globals__.get(name)
            module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if isinstance(module, str) and module != kind.__module__:
                yield module


def _of_package(name: str) -> Iterator[str]:
    """Yield the source of every module of a helper package."""
    module = sys.modules[name.partition(".")[0]]
    files = [file for folder in getattr(module, "__path__", ()) for file in sorted(Path(folder).rglob("*.py"))]
    if not hasattr(module, "__path__"):
        files = [file for file in [_loaded_from(module.__name__)] if file]
    for file in files:
        yield file.read_text(encoding="utf-8")
