"""The command line of the two-tier model: `blindrec two-tier`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from coordinator.protocol.second_order_mechanisms import found
from coordinator.protocol.second_order_public import A_RELEASE
from scenarios.datasets import three_columns
from scenarios.places.backends import open_session
from scenarios.records import check_target
from scenarios.two_tier.config import DEFAULT_EPSILON, DEFAULT_MECHANISM, GUARANTEES, TwoTier, two_tier_of
from scenarios.two_tier.keeping import taught_in
from scenarios.two_tier.tables import report_two_tier

_WITH_EPSILON = ", ".join(
    name if half.epsilon_of == A_RELEASE else f"{name} ({half.epsilon_of})"
    for name, half in found().items()
    if half.takes_epsilon
)


def two_tier(
    ratings: Annotated[Path | None, typer.Option(help="A file of ratings: MovieLens, Jester, CSV, Parquet.")] = None,
    columns: Annotated[str | None, typer.Option(help="Names of the file's user, item and rating columns.")] = None,
    planted: Annotated[str | None, typer.Option(help="users,items,ratings of planted data instead of a file.")] = None,
    public: Annotated[
        str | None, typer.Option(help="Public users: a number, or a share like 0.05 or 5% [100].")
    ] = None,
    public_by: Annotated[str | None, typer.Option(help="Public users: most (ratings first) or random [most].")] = None,
    private: Annotated[int | None, typer.Option(help="Private devices that answer, once each [400].")] = None,
    private_by: Annotated[str | None, typer.Option(help="Private devices: most or random [most].")] = None,
    mechanism: Annotated[str | None, typer.Option(help=f"{', '.join(GUARANTEES)} [{DEFAULT_MECHANISM}].")] = None,
    epsilon: Annotated[str | None, typer.Option(help=f"Of {_WITH_EPSILON} [{DEFAULT_EPSILON}].")] = None,
    rank: Annotated[int | None, typer.Option(help="Directions r of the features [validated].")] = None,
    regularisation: Annotated[float | None, typer.Option(help="kappa of the trace norm [validated].")] = None,
    weight: Annotated[
        float | None, typer.Option(help="Of a release against a public user [0.5 as in the paper, or validated].")
    ] = None,
    norm: Annotated[str | None, typer.Option(help="Trace norm: uniform or weighted [uniform].")] = None,
    m_step: Annotated[str | None, typer.Option(help="keep (the paper's) or prox (exact) [keep].")] = None,
    scale: Annotated[
        str | None, typer.Option(help="The set S, 1,2,3,4,5 or 0.5:5:0.5 [what public users gave].")
    ] = None,
    round_ratings: Annotated[bool, typer.Option("--round-ratings", help="Move ratings to the nearest in S.")] = False,
    holdout: Annotated[int | None, typer.Option(help="Test ratings of every user [10].")] = None,
    iterations: Annotated[int | None, typer.Option(help="EM iterations on public users alone [20].")] = None,
    batch: Annotated[int | None, typer.Option(help="Private devices between two models [20].")] = None,
    batch_iterations: Annotated[int | None, typer.Option(help="EM iterations after each batch [2].")] = None,
    seed: Annotated[int | None, typer.Option(help="Everything random follows from it [0].")] = None,
    backend: Annotated[str, typer.Option(help="ray or inprocess.")] = "ray",
    address: Annotated[str | None, typer.Option(help="Ray head to join, host:port [start Ray here].")] = None,
    workers: Annotated[int | None, typer.Option(help="Cohorts at the same time [all CPUs].")] = None,
    out: Annotated[Path | None, typer.Option(help="New folder: result, scenario, versions; to go on in.")] = None,
    json: Annotated[str | None, typer.Option(help="File for the JSON result, or - for standard output.")] = None,
) -> None:
    """Public users teach item features; private devices complete their own vectors and answer once.

    Rank, regularisation and the weights of noisy releases are chosen on held-out public users where they are not
    given. Speed flags (--backend, --workers) never change an answer. With --out every batch of releases is kept: a run
    that was killed or interrupted goes on by blindrec resume FOLDER, or by the same command; models are fitted again.
    """
    flags = {name: value for name, value in locals().items() if name in TwoTier.model_fields}
    wanted = two_tier_of({**flags, "columns": three_columns(columns)})
    check_target(json)
    opening = open_session(backend, address=address, workers=workers)
    with taught_in(wanted, opening, console=Console(stderr=True), out=out) as result:
        report_two_tier(result, json)
