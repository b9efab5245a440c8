"""Tables beside the ratings: what files say of items and of people, joined to the ratings by their ids."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError, name_choices
from coordinator.protocol.item_models import PublicFeatures
from scenarios.config.files import a_file, brief, require_rows, require_text
from scenarios.config.settings import BadLines
from scenarios.data.formats import DOTS, RatingFormat, TextHead, first_object, head_of, split_header, takes_quotes
from scenarios.data.packed_files import UNREADABLE, DataFile, open_data, unreadable
from scenarios.data.readers import Faults, parse_text, plain_ids
from scenarios.data.text_records import text_of, whole_records
from scenarios.data.values import to_floats, to_seconds

Labels = np.ndarray[tuple[int], np.dtype[np.object_]]
FEWEST, MOST = 5, 500
"""A word is a feature if at least this many items have it; a column with more words than `MOST` has no features."""
_MOSTLY = 0.9  # Share of a column's cells that are numbers, or dates, where it holds no words
_ITEM = re.compile("(item|movie|film|book|product|track|song|joke|artist|title|i)id|item|isbn|(parent)?asin")
_TITLE = ("title", "name", "item_name", "movie_title")
_YEAR = re.compile(r"\((\d{3})\d\)\s*$")
_NOTHING = ("", "(no genres listed)", "\\N")
_AMOUNT = re.compile(
    r"(?i)[$€£]?\s*[+-]?\d[\d.,:]*\s*(%|h|hrs?|hours?|m|mins?|minutes?|s|secs?|seconds?|seasons?|eur|usd)?"
)
_GENRES = (  # noqa: SIM905 (a list of nineteen takes nineteen lines)
    "unknown Action Adventure Animation Children's Comedy Crime Documentary Drama Fantasy Film-Noir Horror Musical "
    "Mystery Romance Sci-Fi Thriller War Western"
).split()
"""The genres of MovieLens 100K in the order of its columns, by its own documentation."""
_FILMS, _PEOPLE = ("movieId", "title", "genres"), ("userId", "gender", "age", "occupation", "zip")
_FILMS_100K = ("movieId", "title", "date", "video date", "url", *_GENRES)
_PEOPLE_100K = ("userId", "age", "gender", "occupation", "zip")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemDescriptions:
    """The descriptions of a catalogue's items."""

    features: PublicFeatures  # Words of its columns, split by ``|``, and decades of titles
    # shape (N,); Titles, with an item's id where the file does not name it; None without a column of titles
    titles: Labels | None = field(repr=False)
    remarks: tuple[str, ...] = ()  # How many items are described, by which columns


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTable:
    """A table whose cells are text, several words among them split by ``|``."""

    table: Any = field(repr=False)  # A data frame
    remarks: tuple[str, ...]


def read_side_table(path: Path, what: str, remedy: str, *, skip: bool = False) -> SideTable:
    """Return a table with named columns, in any format of ratings files, or one of MovieLens's own without names."""
    a_file(path, what, remedy)
    try:
        file = open_data(path, what)
        require_text(file.size, f"{what} {path}")
        if file.parquet:
            return SideTable(table=_of_parquet(file), remarks=())
        head = head_of(file)
        if first_object(file, head) is not None:
            return _of_json_lines(file, head, what, skip=skip)
        return _of_text(file, head, what, skip=skip)
    except InputError as error:
        raise InputError(str(error).replace("give a file with ratings", remedy)) from None
    except UNREADABLE as error:
        raise unreadable(f"{what} {path}", error) from None


def _of_text(file: DataFile, head: TextHead, what: str, *, skip: bool) -> SideTable:
    import pandas as pd  # noqa: PLC0415 (it takes longer than a small run, which has no such file)

    form = _form_of(file, head, what)
    table, bad = parse_text(file, form, form.names)
    skipped, _, rows = bad.usable(table.num_rows, skip=skip)
    cells = {name: np.array(table[name].cast(pa.string()).to_pylist(), np.object_) for name in form.names}
    frame = pd.DataFrame({name: column if rows is None else column[rows] for name, column in cells.items()})
    if form.names == _FILMS_100K:
        flags = frame[_GENRES].to_numpy() == "1"
        genres = ["|".join(name for name, there in zip(_GENRES, row, strict=True) if there) for row in flags]
        frame = frame[["movieId", "title"]].assign(genres=genres)
    remarks = [f"{what}: {line}" for line in bad.remarks]
    remarks += [f"bad lines of the {what} that were left out: {skipped:,}"] if skipped else []
    return SideTable(table=frame, remarks=tuple(remarks))


def _form_of(file: DataFile, head: TextHead, what: str) -> RatingFormat:
    """Return the format of a table in text, with the names of its first line, or those of MovieLens's own files."""
    dots, bars = head.line.split(DOTS), head.line.split("|")
    column_names = {3: _FILMS, 5: _PEOPLE}.get(len(dots)) or {24: _FILMS_100K, 5: _PEOPLE_100K}.get(len(bars))
    if column_names is not None and (dots if len(dots) > 2 else bars)[0].strip().isdecimal():
        delimiter = DOTS if len(dots) > 2 else "|"
        return RatingFormat(
            name="MovieLens",
            fields=column_names[:2],
            delimiter=delimiter,
            names=column_names,
            above=head.number - 1,
            latin=True,
        )
    delimiter, names = split_header(head.line)
    if len(names) < 2 or any(re.fullmatch(r"[\d.]+", name) for name in names):
        line = brief(head.line)
        raise InputError(f"{what} {file.name} begins with {line}: give a line of names first, of two columns or more")
    if len({*names}) < len(names):
        again = next(name for name, count in Counter(names).items() if count > 1)
        raise InputError(f"{names.count(again)} columns of {what} {file.name} are called '{again}': rename all but one")
    quoted = takes_quotes(head.line, delimiter)
    label = f"{what} with {len(names)} columns"
    return RatingFormat(
        name=label, fields=names[:2], delimiter=delimiter, names=names, above=head.number, quoted=quoted, latin=True
    )


def _of_json_lines(file: DataFile, head: TextHead, what: str, *, skip: bool) -> SideTable:
    import pandas as pd  # noqa: PLC0415 (as above)

    form = RatingFormat(name="JSON lines", fields=(), names=("line",), above=head.number - 1)
    bad, rows = Faults(file=file, form=form), list[dict[str, Any]]()
    broken = dict[int, str]()
    with file.open() as opened:
        for block, _, _ in whole_records(opened, form, file.name):
            for line in filter(None, block.split(b"\n")):
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError):
                    value = None
                if not isinstance(value, dict):
                    broken[len(rows)] = text_of(line[:60])
                rows.append(value if isinstance(value, dict) else {})
    bad.add(np.array(list(broken), np.int64), lambda row, most: f"is no object of JSON ({broken[row][:most]!r})")
    skipped, _, good = bad.usable(len(rows), skip=skip)
    left = rows if good is None else [rows[row] for row in good]
    names = list(dict.fromkeys(name for row in left for name in row))
    frame = pd.DataFrame({name: [_cell(row.get(name)) for row in left] for name in names}, dtype=object)
    remarks = (f"bad lines of the {what} that were left out: {skipped:,}",) if skipped else ()
    return SideTable(table=frame, remarks=remarks)


def _of_parquet(file: DataFile) -> Any:
    import pandas as pd  # noqa: PLC0415 (as above)

    with file.seekable() as opened, pyarrow.parquet.ParquetFile(opened) as parquet:
        require_rows(parquet, file.name)
        table = parquet.read(use_threads=False)
    cells = {name: [_cell(value) for value in table[name].to_pylist()] for name in table.column_names}
    return pd.DataFrame(cells, dtype=object)


def _cell(value: Any) -> str:
    """Return a value as a cell has it: the words of a list split by ``|``, a whole number without its point."""
    if value is None or value != value:  # noqa: PLR0124 (no number)
        return ""
    if isinstance(value, (list, tuple)):
        return "|".join(_cell(part).replace("|", "/") for part in value)
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


class FeatureSettings(Protocol):
    """Settings of whatever reads a file of items' features."""

    @property
    def features(self) -> Path | None:
        """The file, if there is one."""

    @property
    def feature_columns(self) -> tuple[str, ...] | None:
        """Its columns of words, if they are named."""

    @property
    def bad_lines(self) -> BadLines:
        """What becomes of lines that cannot be read."""


def descriptions_of(settings: FeatureSettings, item_labels: Labels) -> ItemDescriptions | None:
    """Return what the features file of some settings says of items; None where there is no such file."""
    path, columns, skip = settings.features, settings.feature_columns, settings.bad_lines == "skip"
    return None if path is None else read_descriptions(path, item_labels, columns=columns, skip=skip)


def read_descriptions(
    path: Path, item_labels: Labels, *, columns: Sequence[str] | None = None, skip: bool = False
) -> ItemDescriptions:
    """Read a file's descriptions of a catalogue's items, whose ids are ``item_labels``, shape (N,)."""
    remedy = "give a CSV with items' ids and columns of words split by '|'"
    side = read_side_table(path, "features file", remedy, skip=skip)
    table = side.table
    named = [name for name in table if _ITEM.fullmatch(re.sub(r"[^a-z]", "", str(name).lower()))]
    item = named[0] if named else table.columns[0]
    for name in columns or ():
        if name not in table.columns or name == item:
            choices = name_choices(name, [str(name) for name in table.columns if name != item])
            raise InputError(f"feature_columns names {brief(name)}, no column of words of {path}; {choices}")
    rows, there = joined(table[item], item_labels, f"features file {path}", f"{item_labels.size} items")
    if not (again := table[item][table[item].duplicated()]).empty:
        several = f"tells of {item} {brief(again.iloc[0])} in several lines, as files about people do"
        raise InputError(f"features file {path} {several}; give a CSV with one line for each item")
    table, features, out = table[there], dict[str, Floats](), list[str]()
    for column in [name for name in (table if columns is None else columns) if name != item]:
        labels, why = _feature_words(table[column], checked=columns is None)
        if why and columns is not None:
            raise InputError(f"feature_columns names {brief(column)}, which has {why}; leave it out")
        if why:
            out.append(f"{column} ({why})")
        for word, mask in labels.items():
            features[f"{column}: {word}"] = indicator = np.zeros(len(item_labels))
            indicator[rows[mask]] = 1
    if not features:
        left = f" (left out: {', '.join(out)})" if out else ""
        raise InputError(f"features file {path} describes none of these {len(item_labels)} items{left}; {remedy}")
    titles = None
    if called := [name for name in table if str(name).strip().lower() in _TITLE]:
        titles = item_labels.copy()
        titles[rows] = table[called[0]].to_numpy(dtype=np.object_)
    taken = ", ".join(dict.fromkeys(name.partition(": ")[0] for name in features))
    left = f"; left out: {', '.join(out)}; --feature-columns names others" if out else ""
    remark = f"features describe {rows.size:,} of the {len(item_labels):,} items by {taken}{left}"
    return ItemDescriptions(
        features=PublicFeatures(names=tuple(features), has=np.stack(list(features.values()), axis=1)),
        titles=titles,
        remarks=(*side.remarks, remark),
    )


def joined(ids: Any, labels: Labels, file: str, of: str) -> tuple[Any, Any]:
    """Return the places of ids among a file's labels, int64, and which ids have one; if none has, that is refused."""
    import pandas as pd  # noqa: PLC0415 (as above)

    row_numbers = pd.Series(np.arange(len(labels)), index=labels.astype(str))
    plain = plain_ids(pa.array([str(item_id) for item_id in ids], pa.string())).to_pylist()
    places = row_numbers.reindex([item_id.strip() for item_id in plain]).to_numpy()
    there = np.isfinite(places)
    if not there.any():
        few = ", ".join(brief(item_id, 30) for item_id in [*ids][:2])
        theirs = ", ".join(brief(label, 30) for label in labels[:2].tolist())
        raise InputError(
            f"{file} describes none of these {of}: none of its {len(ids):,} ids, such as {few}, is among the ratings' "
            f"own, such as {theirs}; give the same ids"
        )
    return places[there].astype(np.int64), there


def _feature_words(cells: Any, *, checked: bool) -> tuple[dict[str, Any], str]:
    """Return the words of a column, each with a mask of its cells, or none and why the column has no features."""
    filled = [cell for cell in dict.fromkeys(cells) if cell.strip() not in _NOTHING]
    if checked and filled:
        amounts = np.isfinite(to_floats(pa.array(filled)).values) | [bool(_AMOUNT.fullmatch(c.strip())) for c in filled]
        if amounts.mean() >= _MOSTLY:
            return {}, "numbers"
        if np.isfinite(to_seconds(pa.array(filled))).mean() >= _MOSTLY:
            return {}, "dates"
    labels = cells.map(words_of)
    every = labels.explode().value_counts()
    if len(every) > MOST:
        return {}, f"{len(every):,} words, more than {MOST}"
    often = sorted(every.index[every >= FEWEST])
    masks = {word: labels.map(lambda cell, word=word: word in cell).to_numpy(np.bool_) for word in often}
    return masks, "" if masks else f"no word of {FEWEST} items"


def words_of(cell: str) -> list[str]:
    """Return the words of a cell; of a title that ends in a year only its decade.

    >>> words_of("Drama|Crime"), words_of("Heat (1995)")
    (['Drama', 'Crime'], ['1990s'])
    """
    if year := _YEAR.search(cell):
        return [f"{year[1]}0s"]
    return [word.strip() for word in cell.split("|") if word.strip() not in _NOTHING]
