"""Parse user input: values in their notation, and untrusted files; every error is one line."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import re
import stat
import tomllib
import zipfile
import zlib
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NoReturn, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, ValidationInfo

from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.protocol.errors import InputError, ReadError, name_choices
from coordinator.protocol.limits import memory_left, open_regular, read_whole, require_memory, size_of
from scenarios.config.frames import FramePath, frame_at, is_frame, named

if TYPE_CHECKING:
    import pandas as pd


MOST_ECHOED = 80  # Characters of a value that an error repeats
MOST_TOLD = 900  # Characters of an error's whole line: what is wrong stands at its beginning, the remedy at its end
LARGEST_WHOLE = (1 << 63) - 1  # Whole numbers beyond it, on either side, are refused; TOML promises no more either
MOST_RUNS = 10**6  # Seeds of a command; sweeps hold a list of all that they run
MAY_BE_FRAMES = ("ratings", "held_out")  # Settings that name a file, or from Python take a DataFrame in its place
SEEDS = ("repeat", "seeds")  # Flags that say how many there are
_WRITTEN = re.compile(r"([+-]?(?:\d{1,20}|\d{1,3}(?:,\d{3})+)(?:\.\d{1,20})?(?:[eE][+-]?\d{1,2})?)([kMG]?)")
"""A number, by people, and how many."""
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}  # As tables print them
_WAYS = ("constrained-", "function-", "literal[")  # Pydantic's names of ways to read a value; they are no part of a key


def brief(value: object, most: int = MOST_ECHOED) -> str:
    """Return a value as an error repeats it: its `repr`, a path's that of its text, without its middle if it is long.

    >>> brief("0.9,0.1"), brief(Path("a.csv")), brief("9" * 1000, 40)
    ("'0.9,0.1'", "'a.csv'", "'9999999 ... (1,002 characters) ... 999'")
    """
    try:
        text = repr(str(value) if isinstance(value, Path) else value)
    except (ValueError, RecursionError):  # a number of more digits than Python writes, lists in lists in lists
        text = f"<{type(value).__name__}>"
    return cut_short(text, most)


def cut_short(text: str, most: int) -> str:
    """Return a text that has at most ``most`` characters, as far as its length can be said in them."""
    if len(text) <= most:
        return text
    gap = f" ... ({len(text):,} characters) ... "
    room = max(most - len(gap), 0)
    end = room // 3
    return text[: room - end] + gap + (text[-end:] if end else "")


def one_line(text: str) -> str:
    """Return what an error says as one line of bearable length: long words first lose their middle, then the line."""
    tokens = (cut_short(word, 2 * MOST_ECHOED) if len(word) > 3 * MOST_ECHOED else word for word in text.split())
    return cut_short(printable(" ".join(tokens)), MOST_TOLD)


def printable(text: str) -> str:
    """Return a text in which what is no sign, such as an order to a terminal, is written out."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def first_line(error: ValidationError, kind: type[BaseModel]) -> str:
    """Return in one line the first thing that is wrong: the key, its value and the remedy."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"] if not str(part).startswith(_WAYS)) or "scenario"
    if first["type"] == "extra_forbidden":
        flat_names = getattr(kind, "flat_names", kind.model_fields.keys)
        return f"key {brief(name)} is unknown; {name_choices(name, flat_names(), 'known are')}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return message if message.startswith(name) or not first["loc"] else f"{name}: {message}"
    return f"{name} is {brief(first['input'])}: {message[0].lower()}{message[1:]}"


def nameable(path: str | Path, what: str) -> Path:
    """Return a path that a file may have, whether there is one or not."""
    try:
        os.stat(path)  # noqa: PTH116 (the path may be no string that Path takes)
    except (OSError, ValueError) as error:  # a zero byte, or half of a surrogate pair, is a ValueError
        if not isinstance(error, OSError) or error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            why = getattr(error, "strerror", error)
            raise InputError(f"{what} {brief(str(path))} is not a valid name ({why}); name another") from None
    return Path(path)


def names_of_columns(value: Any) -> Any:
    """Read ``"user,item,rating"``, or a list: the names of a file's columns; None for None."""
    if value is None:
        return None
    names = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else ()
    if not 2 <= len(names) <= 4 or not all(isinstance(name, (str, int)) for name in names):
        raise InputError(
            f"columns is {brief(value)}; name three, user,item,rating; two without ratings, four with times"
        )
    return tuple(str(name).strip() for name in names)


def plain_number(text: Any) -> Any:
    """Return a number as machines write it; what is no such text stays as it is.

    >>> [plain_number(text) for text in ("1e6", "1,000,000", "1.5M", "30k", "0.5", "many")]
    ['1000000', '1000000', '1500000', '30000', '0.5', 'many']
    """
    written = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if written is None:
        return text
    digits = written[1].replace(",", "")
    exact = Fraction(digits) * _UNITS[written[2]]
    if exact.denominator == 1:
        return str(exact.numerator)
    return str(float(exact)) if written[2] else digits


def _numbers(value: Any) -> Any:
    try:
        return tuple(float(part) for part in value.split(",")) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f"{brief(value)} is no list of numbers; write it like 0.9,0.1") from None


def _matrix(value: Any) -> Any:
    if isinstance(value, (list, tuple)) and all(isinstance(part, (int, float)) for part in value):
        return (tuple(value),)
    return tuple(_numbers(row) for row in value.split(";")) if isinstance(value, str) else value


def named_path(value: Any, info: ValidationInfo) -> Path:
    """Read the name of a file, or hold a DataFrame in its place."""
    if is_frame(value):
        if info.field_name in MAY_BE_FRAMES:
            return named(value)
        raise ValueError(f"{info.field_name} is a DataFrame; write it to a file, and name that")
    if isinstance(value, FramePath):
        return value
    if not isinstance(value, (str, Path)):
        raise ValueError(f"{brief(value)} is no path; write it in quotes")  # noqa: TRY004 (pydantic reports it)
    return nameable(value, info.context or "file")


def _small(value: int, info: ValidationInfo) -> int:
    if abs(value) > LARGEST_WHOLE:
        raise ValueError(f"{info.context} is {brief(value)}; whole numbers must be smaller than 2^63")
    if info.context in SEEDS and value > MOST_RUNS:
        raise ValueError(f"{info.context} is {value}; give at most {MOST_RUNS}")
    return value


def _encodable(value: str, info: ValidationInfo) -> str:
    try:
        if b"\0" in value.encode():
            raise ValueError(f"{info.context} is {brief(value)}; leave out the zero byte")
    except UnicodeEncodeError:  # half of a surrogate pair: what Python makes of bytes that are no UTF-8
        raise ValueError(f"{info.context} is {brief(value)}, which is not UTF-8 text; retype it") from None
    return value


# Values of scenarios: epsilon, exactly, or None for no noise; numbers by ',' and their rows by ';'.
Exact = Annotated[Epsilon, BeforeValidator(lambda value: None if value is None else parse_epsilon(value))]
NamedPath = Annotated[Path, BeforeValidator(named_path)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Row = Annotated[tuple[Probability, ...], BeforeValidator(_numbers)]
Matrix = Annotated[tuple[tuple[Probability, ...], ...], BeforeValidator(_matrix)]
# Values of flags, whose names are the context.
Whole = Annotated[int, BeforeValidator(plain_number), AfterValidator(_small)]
Number = Annotated[float, BeforeValidator(plain_number)]
PlainText = Annotated[str, AfterValidator(_encodable)]
FileName = Annotated[str, AfterValidator(lambda value, info: str(nameable(value, info.context)))]


def check_shares(name: str, shares: tuple[float, ...] | None, expected: int) -> None:
    """Refuse shares of the wrong number, or that do not sum to 1."""
    if shares is not None and len(shares) != expected:
        raise ValueError(f"{name} has {len(shares)} numbers, like has {expected}; give the same number")
    if shares is not None and not math.isclose(sum(shares), 1, rel_tol=0, abs_tol=1e-9):
        raise ValueError(f"{name} sum to {sum(shares):g}; they must sum to 1")


MOST_SETTINGS = 16 * 2**20
"""Bytes of a TOML file or of a run's mark; a world written down by hand is the largest that anybody has."""
MOST_RECORD = 64 * 2**20  # Bytes of a result; a sweep of thousands of settings has a few.
MOST_PROGRESS = 2**20  # Bytes of what a run reports of its progress; real ones are below a thousand
TEXT_SHARE = 30
"""Times its length that a table of words takes in memory while it is read from text: each is an object of Python."""
ROW_BYTES = 100
"""Bytes that a rating takes in memory while it is read (87 to 99 measured), however little it was packed into."""
MOST_RATIO, ANY_RATIO = 200, 64 * 2**20
"""Times its packed size to which a file may unpack, and what any may unpack to: real ratings have ratios below ten."""
_DEEPEST = 40  # Lists in lists, or objects; no file of ours has more than eight.
DAMAGED_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, ValueError)
"""What `zipfile` says of an archive that is damaged, has a password or an unknown compression."""


def a_file(path: Path, what: str, remedy: str) -> Path:
    """Return the path of a regular file; refuse devices, and pipes, where a reader could wait for ever."""
    try:
        mode = nameable(path, what).stat().st_mode
    except OSError as error:
        raise ReadError(f"{what} {path} cannot be read ({error.strerror}); {remedy}") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{what} {path} cannot be read (Is a directory); {remedy}")
    if not stat.S_ISREG(mode):
        raise InputError(f"{what} {path} is a pipe, a socket or a device; {remedy}, saved on a disk")
    return path


def read_file(path: Path, what: str, remedy: str, most: int | None = None) -> bytes:
    """Return the content of a file that must be there; see `coordinator.protocol.limits.read_whole`."""
    try:
        return read_whole(a_file(path, what, remedy), most)
    except OSError as error:
        raise ReadError(f"{what} {path} cannot be read ({error.strerror}); {remedy}") from None


def file_sha256(path: Path, what: str) -> str:
    """Return the digest of a file, or of a frame in its place, by which runs and sweeps know it again."""
    if frame := frame_at(path):
        return frame[0]
    remedy, digest, left = "name another one", hashlib.sha256(), memory_left()
    try:
        with open_regular(a_file(path, what, remedy)) as file:
            while part := file.read(1 << 20):
                digest.update(part)
                if (left := left - len(part)) < 0:
                    raise InputError(f"{what} {path} is larger than the memory that is left; {remedy}")
    except OSError as error:
        raise ReadError(f"{what} {path} cannot be read ({error.strerror}); {remedy}") from None
    return digest.hexdigest()


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        values = tomllib.loads(read_file(path, what, "name a TOML file", MOST_SETTINGS).decode())
        _check_numbers(values)
    except RecursionError:
        raise InputError(f"{what} {path} is no TOML: its lists or tables are nested too deep") from None
    except InputError:
        raise
    except ValueError as error:  # of the syntax, of UTF-8, of numbers with thousands of digits
        if "set_int_max_str_digits" in str(error):
            raise InputError(f"{what} {path} holds a whole number of thousands of digits; give a shorter one") from None
        raise InputError(f"{what} {path} is no TOML: {cut_short(str(error), 2 * MOST_ECHOED)}") from None
    return values


def _check_numbers(value: Any) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for number in value:
            _check_numbers(number)
    elif isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        raise ValueError(f"it holds a whole number of {value.bit_length()} bits; give at most 63")


def read_values(path: Path, what: str) -> dict[str, Any]:
    """Read a file of settings: TOML, or JSON where its name says so; see `read_toml`, also for errors."""
    if path.suffix != ".json":
        return read_toml(path, what)
    return json_object(read_file(path, what, "name a TOML file", MOST_SETTINGS), f"{what} {path}", "name another one")


def json_object(content: bytes, name: str, remedy: str) -> dict[str, Any]:
    """Return the object that JSON holds: texts that can be written again, and numbers that machines compute with."""

    def no_number(word: str) -> NoReturn:
        raise ValueError(f"{word} is no number of JSON")

    try:
        value = json.loads(content, parse_constant=no_number)
    except RecursionError:
        raise ReadError(f"{name} cannot be read (its lists or objects are nested too deep); {remedy}") from None
    except ValueError as error:  # of the syntax, of UTF-8, of numbers with thousands of digits
        why = cut_short(str(error), 2 * MOST_ECHOED)
        raise ReadError(f"{name} cannot be read (it is no JSON: {why}); {remedy}") from None
    if not isinstance(value, dict):
        raise ReadError(f"{name} cannot be read (it holds no object of names and values); {remedy}")
    _check_json(value, name, remedy)
    return value


def read_object(path: Path, remedy: str, most: int = MOST_RECORD) -> dict[str, Any] | None:
    """Return the JSON object in a file of a folder, or None where there is no such file; see `json_object`."""
    try:
        return json_object(read_whole(path, most), str(path), remedy)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ReadError(f"{path} cannot be read ({error.strerror}); {remedy}") from None


def _check_json(value: dict[str, Any], name: str, remedy: str) -> None:
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        pointer, content = waiting.pop()
        if pointer.count("/") > _DEEPEST:
            raise InputError(f"{name} nests lists or objects more than {_DEEPEST} deep; {remedy}")
        if isinstance(content, dict):
            waiting += [(f"{pointer}/{pointed(key)}", inner) for key, inner in content.items()]
            waiting += [(f"{pointer}/{pointed(key)}", key) for key in content if not _writable(key)]
        elif isinstance(content, list):
            waiting += [(f"{pointer}/{number}", inner) for number, inner in enumerate(content)]
        elif isinstance(content, str) and not _writable(content):
            raise InputError(f"{name} holds at {brief(pointer)} half of a surrogate pair, which is no text; {remedy}")
        elif (isinstance(content, int) and abs(content) > LARGEST_WHOLE) or (
            isinstance(content, float) and not math.isfinite(content)
        ):
            raise InputError(f"{name} holds at {brief(pointer)} a number beyond 64 bits; {remedy}")


def pointed(key: str) -> str:
    """Return a key as a part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _writable(text: str) -> bool:
    return not any("\ud800" <= sign <= "\udfff" for sign in text) if not text.isascii() else True


def require_unpacked(size: int, packed: int, name: str) -> None:
    """Refuse a packed file that unpacks to more than any real one of its size."""
    if size > max(ANY_RATIO, MOST_RATIO * packed):
        raise InputError(f"{name} unpacks from {size_of(packed)} to {size_of(size)}, as no real file does; unpack it")


def require_text(size: int, name: str) -> None:
    """Refuse a text table of this size if reading it takes more memory than is left."""
    require_memory(TEXT_SHARE * size, name, "give fewer rows, or run where there is more")


def members_of(path: Path) -> dict[str, int]:
    """Return the files in a zip archive with their unpacked sizes; a damaged one raises one of `DAMAGED_ARCHIVE`."""
    with open_regular(path) as file, zipfile.ZipFile(file) as archive:
        return {entry.filename: entry.file_size for entry in archive.infolist()}


def open_member(path: Path, member: str) -> BinaryIO:
    """Open a file in a zip archive for reading; `zipfile` reads no more of it than its entry says."""
    with zipfile.ZipFile(a_file(path, "archive", "name another one")) as archive:
        entry = archive.getinfo(member)
        require_unpacked(entry.file_size, entry.compress_size, f"{brief(member)} in {brief(path)}")
        return cast("BinaryIO", archive.open(entry))


def read_table(path: Path, remedy: str) -> pd.DataFrame:
    """Return the table of a Parquet or CSV file, as the file's name says."""
    import pandas as pd  # noqa: PLC0415 (it takes longer than what reads no table)
    import pyarrow as pa  # noqa: PLC0415 (as above)

    content = read_file(path, "table", remedy)
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet  # noqa: PLC0415 (as above)

            with pyarrow.parquet.ParquetFile(io.BytesIO(content)) as parquet:
                require_rows(parquet, str(path))
                return cast("pd.DataFrame", parquet.read(use_threads=False).to_pandas(ignore_metadata=True))
        require_text(len(content), f"table {path}")
        return pd.read_csv(io.BytesIO(content))
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise ReadError(f"{path} cannot be read ({reason_of(error)}); {remedy}") from None


def require_rows(parquet: Any, name: str) -> None:
    """Refuse a Parquet file, opened by pyarrow, whose rows take more memory than is left."""
    metadata = parquet.metadata
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    size = 3 * sum(group.total_byte_size for group in groups) + max(ROW_BYTES, 16 * metadata.num_columns) * rows
    require_memory(size, f"{name}, with {rows:,} rows,", "give fewer rows, or run where there is more")


def reason_of(error: Exception) -> str:
    """Return the first line of an error's message, without its middle if it is long; its name where that is empty."""
    lines = (getattr(error, "strerror", None) or str(error).strip() or type(error).__name__).splitlines()
    return cut_short(lines[0], 2 * MOST_ECHOED)
