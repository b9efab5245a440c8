"""The rows of a comparison, collected from what modules here declare: a new row is a function and a line in `ROWS`."""

from functools import cache

from coordinator.protocol.finding import by_name, declared
from scenarios.studies.compare.comparison_settings import EVERY_MODEL
from scenarios.studies.compare.row import Row


@cache
def registered_rows() -> dict[str, Row]:
    """Return every row by ``trust model: mechanism``, in the order of tables."""
    rows = declared(__name__, __path__, "ROWS", Row)  # a trust model's stand in one module, in their order
    ordered = sorted(rows, key=lambda row: EVERY_MODEL.index(row.trust_model))
    return by_name(ordered, lambda row: [f"{row.trust_model}: {row.mechanism}"])
