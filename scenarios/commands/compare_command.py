"""The command line of comparisons: `blindrec compare FILE`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from scenarios.backends.selection import AUTO, open_session
from scenarios.commands.flags import Address, Backend, Figure, Json, Setting, With, Workers, with_fields
from scenarios.log import console
from scenarios.show.figures import check_figure, deliver_figure
from scenarios.studies.compare.comparison_settings import Comparison

HELP = """Compare what recommendations are worth under each trust model, on one split of one file of ratings.

\b
  none      whoever learns has all ratings: popularity, item kNN, SVD, EASE, and a random list
  curator   a trusted curator publishes noisy counts of likes, or of pairs of items
  two-tier  a few people's ratings are public, and the others may add what devices tell
  local     nobody is trusted: every device answers one question under its whole epsilon
  coordinator  sees all votes and hides them from clients (p-REC): a panel of losses, beside the rows

Likes and dislikes are held out once, for all rows; devices rank what they have not rated, and the first ten are held
against the likes held out. With --features a device weighs scores by features of what it likes itself: nothing is
sent for that. With --scale more people are drawn from the file with replacement; the noise is that of so many people,
and nobody in the file is protected.

\b
  blindrec compare ratings.csv --features movies.csv --epsilon 1,4 --scale 1,100 --figure worth.png
  blindrec compare ratings.csv --trust-models none,local --mechanisms EASE,set --out worth
  blindrec compare ratings.csv --design oue:OUE --setting odds=2 --scale 1,10

With --out every finished row is kept in the folder at once, and the same command goes on there; with more --seeds,
--epsilon, --scale or rows, too.
"""
_FIELDS = {name: field for name, field in Comparison.model_fields.items() if name != "ratings"}


@with_fields(_FIELDS)
def compare(
    file: Annotated[Path, typer.Argument(help="MovieLens, Jester, or any CSV or Parquet file of ratings.")],
    *,
    backend: Backend = AUTO,
    address: Address = None,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="Folder to keep rows in: new, or of the same comparison.")] = None,
    json: Json = None,
    figure: Figure = None,
    setting: Setting = None,
    helpers: With = None,
    **values: Any,
) -> None:
    """Compare all trust models on a file; see `HELP`."""
    # other commands need not wait for what this one loads
    from scenarios.config.identity import import_helpers, read_settings
    from scenarios.config.mechanism_settings import own_designs
    from scenarios.show.records import STDOUT, check_target, deliver
    from scenarios.show.tables import printed
    from scenarios.studies.compare.comparison import comparison
    from scenarios.studies.sweep.sweep_folder import swept

    check_target(json)
    check_figure(figure)
    design = [path.strip() for path in (values.pop("design") or "").split(",") if path]
    own = own_designs(design, read_settings(setting or ()), import_helpers(helpers or ()))
    sweep = comparison({"ratings": file, "design": own, **values})
    opening = open_session(backend, address=address, workers=workers, work=sweep.work)
    with folder_of(out) as place:
        done = swept(sweep, opening, place, console())
    deliver(json, done.result)
    deliver_figure(figure, sweep.family, done.result)
    if json != STDOUT:
        sweep.show(printed(), done.result, "blindrec compare")


compare.__doc__ = HELP


@contextmanager
def folder_of(out: Path | None) -> Iterator[Path]:
    """Yield the folder of a comparison, one that lasts as long as it where none is named."""
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="blindrec-") as folder:
        yield Path(folder) / "compared"
