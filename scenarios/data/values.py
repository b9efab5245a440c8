"""Texts as values: ratings in the ways that people write numbers, times and dates, and ratings that stand apart."""

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator.protocol.arrays import Floats, Ints

APART = 3  # Ratings stand apart if the gap before them is so many times as wide as the range of all others
_THIN = 1000
_MONTHS = 12
_DATE = re.compile(r"\s*(\d{1,2})([./ -])(\d{1,2})(?:\2|, )(\d{4})((?:\s.*)?)")
_COMMA = re.compile(r"[+-]?\d+(?:,\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3},\d{3}")
_WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "1": 1.0, "0": 0.0}
_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMED = re.compile(rf"(?i)\b({'|'.join(_NAMES)})[a-z]*\b\.?")
_YEAR = re.compile(r"(?<![\d:.+-])(\d{4})(?![\d:])")
_CLOCK = re.compile(r"(?i)(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?\s*([ap]\.?m\b\.?)?\s*(z|utc|gmt|[+-]\d{2}:?\d{2})?")
_DAY = re.compile(r"(?<!\d)(\d{1,2})(?:st|nd|rd|th)?(?!\d)")


class NumberReading(NamedTuple):
    """What texts say as numbers."""

    values: Floats  # float64[texts], nan for what is no number
    way: str = ""  # How they were written, where that is not plain


def to_floats(texts: pa.Array) -> NumberReading:
    """Return texts or numbers as float64, in the one way of writing numbers that reads most of them.

    >>> to_floats(pa.array(["3,5", "4"])).values.tolist(), to_floats(pa.array(["50 %", "7,5%"])).values.tolist()
    ([3.5, 4.0], [50.0, 7.5])
    >>> to_floats(pa.array(["True", "FALSE"])).values.tolist(), to_floats(pa.array(["1,234"])).values.tolist()
    ([1.0, 0.0], [nan])
    """
    try:
        trimmed = pc.utf8_trim_whitespace(texts) if pa.types.is_string(texts.type) else texts
        return NumberReading(np.asarray(trimmed.cast(pa.float64()), dtype=np.float64))
    except pa.ArrowInvalid:
        written = [str(text).strip() for text in texts.to_pylist()]
    readings = [
        NumberReading(np.array([read(text) for text in written], np.float64), way) for way, read in _WAYS.items()
    ]
    best = max(readings, key=lambda reading: int(np.isfinite(reading.values).sum()))
    if best.way == _DECIMAL_COMMAS and all(_THOUSANDS.fullmatch(text) for text in written if "," in text):
        return readings[0]
    return best


def _plain(text: str) -> float:
    try:
        return float(text) if "_" not in text else np.nan
    except ValueError:
        return np.nan


def _with_comma(text: str) -> float:
    return float(text.replace(",", ".")) if _COMMA.fullmatch(text) else np.nan


def _percent(text: str) -> float:
    number = text.removesuffix("%").strip()
    either = _plain(number)
    return np.nan if number == text else _with_comma(number) if np.isnan(either) else either


_DECIMAL_COMMAS = "with decimal commas"
_WAYS: dict[str, Callable[[str], float]] = {
    "": _plain,
    _DECIMAL_COMMAS: _with_comma,
    "as percent, from 0 to 100": _percent,
    "as true and false, 1 and 0": lambda text: _WORDS.get(text.lower(), np.nan),
}
"""Ways to write numbers; of those that read as many the first counts."""


def to_seconds(texts: pa.Array) -> Floats:
    """Return times as float64: numbers as they are, or dates in seconds; nan for what is neither."""
    values = to_floats(texts)
    if not values.way and not np.isnan(values.values).all():
        return values.values
    import pandas as pd  # noqa: PLC0415 (only where dates are text)

    written = [_by_number(str(text)) for text in texts.to_pylist()]
    dates = pd.to_datetime(pd.Series(_year_first(written)), errors="coerce", utc=True, format="ISO8601")
    return np.asarray((dates - pd.Timestamp(0, tz="UTC")).dt.total_seconds(), np.float64)


def day_or_month_first(text: str) -> bool:
    """Return whether a date begins with its day or its month."""
    return _DATE.fullmatch(text) is not None


def _by_number(text: str) -> str:
    """Return a date that names its month as ISO 8601 has it; another text as it is.

    >>> [_by_number(text) for text in ("Nov 02, 2018", "2-November-2018 9:30 PM", "Fri, 2 Nov 2018 21:30:01 GMT")]
    ['2018-11-02', '2018-11-02T21:30:00', '2018-11-02T21:30:01Z']
    """
    month = _NAMED.search(text)
    if month is None:
        return text
    clock = _CLOCK.search(text)
    rest = text if clock is None else text[: clock.start()] + text[clock.end() :]
    year = _YEAR.search(rest.replace("-", " "))
    if year is None:
        return text
    day = _DAY.search(rest[: year.start()] + " " + rest[year.end() :])
    if day is None:
        return text
    date = f"{year[1]}-{_NAMES.index(month[1].lower()) + 1:02d}-{int(day[1]):02d}"
    if clock is None:
        return date
    hour, meridiem = int(clock[1]), (clock[4] or "").lower()[:1]
    hour = hour % _MONTHS + _MONTHS * (meridiem == "p") if meridiem else hour
    zone = (clock[5] or "").upper()
    zone = "Z" if zone in ("UTC", "GMT", "Z") else zone
    return f"{date}T{hour:02d}:{clock[2]}:{clock[3] or '00'}{zone}"


def _year_first(texts: list[str]) -> list[str]:
    """Return dates with day or month first as ISO 8601 has them; as they are where the file leaves open which it is.

    >>> _year_first(["31/12/2019", "1/2/2020 09:30"]), _year_first(["12/31/2019"]), _year_first(["01/02/2020"])
    (['2019-12-31', '2020-02-01 09:30'], ['2019-12-31'], ['01/02/2020'])
    """
    matches = [_DATE.fullmatch(text) for text in texts]
    beyond_months = (
        np.array([[int(match[1]), int(match[3])] for match in matches if match] or [[0, 0]]).max(axis=0) > _MONTHS
    )
    if beyond_months[0] == beyond_months[1]:
        return texts
    day, month = (1, 3) if beyond_months[0] else (3, 1)
    return [
        f"{match[4]}-{match[month]:0>2}-{match[day]:0>2}{match[5]}" if match else text
        for match, text in zip(matches, texts, strict=True)
    ]


def perhaps_unrated(values: Floats) -> str:
    """Return a warning if the least value may stand for what is not rated; empty where nothing says so.

    That is -1 where no other rating is below 0, and 0 below whole numbers if it is given oftener than the next one.

    >>> perhaps_unrated(np.repeat([0.0, 1.0, 2.0], [6, 2, 2]))
    '60 % of the ratings are 0, which stands for unrated in some files: if it does here, give --unrated 0'
    >>> perhaps_unrated(np.repeat([0.0, 1.0], [6, 4])), perhaps_unrated(np.repeat([0.0, 0.5, 2.0], [6, 2, 2]))
    ('', '')
    """
    levels, counts = levels_of(values)
    if levels.size < 3 or levels[0] not in (0, -1) or levels[1] < (0 if levels[0] else 1):
        return ""
    if levels[0] == 0 and counts[0] <= counts[1]:
        return ""
    share = 100 * counts[0] / values.size
    text = f"{share:.0f}" if share >= 1 else f"{share:.2g}"
    return (
        f"{text} % of the ratings are {levels[0]:g}, which stands for unrated in some files: if it does here, give "
        f"--unrated {levels[0]:g}"
    )


def levels_of(values: Floats) -> tuple[Floats, Ints]:
    """Return the values that there are, ascending, and how often each is."""
    counted = pc.value_counts(pa.array(values))
    order = np.argsort(levels := np.asarray(counted.field("values"), np.float64))
    return levels[order], np.asarray(counted.field("counts"), np.int64)[order]


def stand_apart(values: Floats) -> str:
    """Say which ratings stand apart from all others, as a mark of what is missing does, or a slip; empty for none.

    They lie beyond a gap that is wider than `APART` times the range of all others. The others are more than half of the
    ratings, and do not thin out towards the gap, as counts do: a thousandth of all ratings, and ten, lie in the last
    tenth of their range.

    >>> stand_apart(np.repeat([0.5, 3.0, 5.0, 99.0], [20, 50, 30, 2]))
    '2 ratings of 99 stand apart from all others, which lie from 0.5 to 5: if they are no ratings, drop their lines'
    >>> stand_apart(np.array([1, 1, 1, 1, 2, 2, 3, 40])), stand_apart(np.repeat([1.0, 5.0], 50))
    ('', '')
    """
    levels, counts = levels_of(values)
    for sign in (1, -1):  # what stands above all others, then what stands below
        ends, multiplicities = (levels, counts) if sign == 1 else (-levels[::-1], counts[::-1])
        below, width, gap = np.cumsum(multiplicities), ends[:-1] - ends[0], np.diff(ends)
        tenth = np.searchsorted(ends, ends[:-1] - width / 10)
        last = below[:-1] - np.where(tenth > 0, below[tenth - 1], 0)
        wide = (gap > APART * width) & (width > 0) & (2 * below[:-1] > values.size)
        if (gaps := np.flatnonzero(wide & (last >= max(10, values.size / _THIN)))).size:
            others, beyond = np.sort(sign * ends[[0, gaps[0]]]), np.sort(sign * ends[[gaps[0] + 1, -1]])
            count = int(values.size - below[gaps[0]])
            which = f"of {beyond[0]:g}" if beyond[0] == beyond[1] else f"from {beyond[0]:g} to {beyond[1]:g}"
            stand = "rating {} stands" if count == 1 else "ratings {} stand"
            return (
                f"{count:,} {stand.format(which)} apart from all others, which lie from "
                f"{others[0]:g} to {others[1]:g}: if they are no ratings, drop their lines"
            )
    return ""
