"""Pictures of one experiment: what a run learned, how two tiers fitted and advise, what clients lose online."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from scenarios.show.figures import (
    GREY,
    PALETTE,
    Axis,
    FigurePanel,
    Picture,
    Pictures,
    Style,
    Tables,
    by_place,
    epsilon_words,
    look,
    marks_of,
    rows,
    setting_of,
)

_SHARE = Axis("share", low=-0.02, high=1.02)
_MOST_BARS = 60  # Items beyond which standard errors are a band, since bars would touch
_POPULAR = "by popularity, which knows all ratings"
_SHARES = {
    "accuracy": ("items right", "measured", "measured"),
    "accuracy_predicted": ("items right", "predicted from exact moments", "predicted"),
    "exact": ("all items right", "measured", "measured"),
    "advice_liked": ("own top 10 liked", "measured", "measured"),
    "random_liked": ("own top 10 liked", "by chance", "chance"),
    "hit_rate": ("hit rate at 10", "measured", "measured"),
    "popularity_hit_rate": ("hit rate at 10", _POPULAR, "beside"),
    "random_hit_rate": ("hit rate at 10", "by chance", "chance"),
    "ndcg": ("NDCG at 10", "measured", "measured"),
    "popularity_ndcg": ("NDCG at 10", _POPULAR, "beside"),
    "random_ndcg": ("NDCG at 10", "by chance", "chance"),
    "top_50": ("true top 50 found", "measured", "measured"),
}


def run(record: Mapping[str, Any], tables: Tables) -> Pictures:
    """Yield items by score, what was measured beside what was predicted, and the course of several rounds."""
    heading = f"{record['design']}: {setting_of(record)}"
    if "items" in tables:
        alt = "Every item's score with its standard error, in order of scores, a colour and a marker for each cluster."
        yield Picture("items", "What the server learned", alt, [_items(tables["items"], heading)])
    alt = "Shares that were measured, with intervals where there are several seeds, beside predicted ones and chance."
    seeds = f"measured, {record['repeat']} seeds, 95 %" if record.get("repeat", 1) > 1 else "measured"
    marks = [one._replace(label=seeds) if one.label == "measured" else one for one in marks_of(record, _SHARES)]
    yield from rows("shares", "Measured beside predicted", alt, marks, heading, _SHARE)
    if "rounds" in tables and len(rounds := tables["rounds"]) > 1:
        alt = "Items in the pool of each round, and devices that have answered until then."
        course = pd.DataFrame({"round": range(1, len(rounds) + 1), "pool": rounds["pool"].to_numpy()})
        course["answered"] = rounds["answered"].cumsum().to_numpy()
        sides = Axis("items in the pool", "pool", low=0), Axis("devices that have answered", "answered", low=0)
        x = Axis("round", "round", ticks="whole")
        panels = [FigurePanel(points=course, x=x, y=y, looks={"": look(turn)}) for turn, y in enumerate(sides)]
        yield Picture("rounds", "Round by round", alt, panels, heading=heading, size=(4.6, 3.6))


def _items(items: pd.DataFrame, heading: str) -> FigurePanel:
    ordered = items.sort_values("score", ascending=False, ignore_index=True)
    errors = ordered["standard_error"].fillna(0.0)
    points = pd.DataFrame({"x": ordered.index, "score": ordered["score"], "kind": "item"})
    points = points.assign(low=points["score"] - errors, high=points["score"] + errors)
    points["label"] = "cluster " + ordered["cluster"].astype(str)
    band = points.assign(kind="band", label="standard error")
    by_cluster = points.loc[ordered.groupby("cluster").ngroup().sort_values(kind="stable").index]
    looks = by_place(by_cluster["label"], linestyle="", markersize=3.5)
    if len(points) > _MOST_BARS:
        points = pd.concat([band, by_cluster.assign(low=float("nan"), high=float("nan"))])
    else:
        points = by_cluster
    kinds = {"band": {"facecolor": "0.85", "linewidth": 0, "label": "{}"}}
    x, y = Axis("items, by score", "x"), Axis("score, with its standard error", "score")
    return FigurePanel(points=points, x=x, y=y, looks=looks, kinds=kinds, title=heading)


_ERRORS = {
    "rmse": ("with private devices", "", "measured"),
    "rmse_public_only": ("public users alone", "", "beside"),
    "rmse_baseline": ("items' means", "", "chance"),
}
_ADVICE = {
    "hit_rate": ("hit rate at 10", "measured", "measured"),
    "popularity_hit_rate": ("hit rate at 10", "by popularity", "beside"),
    "ndcg": ("NDCG at 10", "measured", "measured"),
    "popularity_ndcg": ("NDCG at 10", "by popularity", "beside"),
}


def two_tier(record: Mapping[str, Any], tables: Tables) -> Pictures:
    """Yield errors beside those of public users alone, advice beside popularity, and how the model fitted."""
    epsilon = "" if record.get("epsilon") is None else f", {epsilon_words(record['epsilon'])}"
    heading = f"{record['mechanism']}{epsilon}: {record['public']:,} public users"
    heading += f", {record['answered']:,.10g} devices that answered"
    alt = "Errors of held-out ratings: with what private devices told, of public users alone, and of items' means."
    errors = Axis("RMSE of held-out ratings [rating points]")
    yield from rows("errors", "What private devices add", alt, marks_of(record, _ERRORS), heading, errors)
    alt = "Hit rate and NDCG of lists of ten, beside lists by popularity."
    yield from rows("advice", "What recommendations are worth", alt, marks_of(record, _ADVICE), heading, _SHARE)
    if "iterations" in tables:
        alt = "The server's objective over the EM iterations; it rises where more releases are to be explained."
        x, y = Axis("EM iterations", "iteration"), Axis("objective", "objective")
        panels = [FigurePanel(points=tables["iterations"][["iteration", "objective"]], x=x, y=y, title=heading)]
        yield Picture("iterations", "How the model was fitted", alt, panels)


_WORLD = {"T": "rounds", "m": "objects", "N": "voters", "P": "peers", "D": "diversity", "R": "radius"}
_LOSS = {
    "loss": ("loss", "measured", "measured"),
    "loss_bound": ("loss", "proved, any world", "proved"),
    "loss_random": ("loss", "a random list, expected", "chance"),
}
_PRIVACY = {
    "epsilon_proved": ("privacy loss", "epsilon as proved", "proved"),
    "epsilon_exact": ("privacy loss", "epsilon, exact worst case", "predicted"),
    "epsilon_needed": ("privacy loss", "epsilon that any such loss needs", "at least"),
    "privacy_loss_of_peers": ("privacy loss", "this run's exact privacy loss", "measured"),
}


def online(record: Mapping[str, Any], tables: Tables) -> Pictures:
    """Yield clients' losses round by round, and loss and privacy loss beside their bounds."""
    numbers = {symbol: record.get(name) for symbol, name in _WORLD.items()}
    world = [f"{symbol} = {value:,.10g}" for symbol, value in numbers.items() if isinstance(value, (int, float))]
    heading = f"{record['recommender']}: {', '.join(world)}"
    if "rounds" in tables:
        alt = "Disliked recommendations of every client so far, round by round."
        yield Picture("losses", "Clients' losses so far", alt, [_losses(tables["rounds"], heading)])
    alt = "The loss of a client that was measured, beside what is proved and what random lists lose."
    x = Axis("disliked recommendations of a client", scale="log")
    yield from rows("loss", "Loss beside its bound", alt, marks_of(record, _LOSS), heading, x)
    alt = "The exact privacy loss of this run beside what is proved of the recommender."
    x = Axis("privacy loss [nats]", scale="log")
    yield from rows("privacy", "Privacy loss beside epsilon", alt, marks_of(record, _PRIVACY), heading, x)


def _losses(rounds: pd.DataFrame, heading: str) -> FigurePanel:
    disliked = (~rounds["liked"].astype(bool)).groupby(rounds["client"], sort=False).cumsum()
    points = pd.DataFrame(
        {"kind": "client", "client": rounds["client"], "round": rounds["round"] + 1, "loss": disliked}
    )
    clients = list(dict.fromkeys(points["client"].astype(str)))
    kinds: dict[str, Style] = {"client": {"drawstyle": "steps-post"}}
    looks = {client: {"color": color, "label": client} for client, color in zip(clients, PALETTE, strict=False)}
    if len(clients) > len(PALETTE):
        mean = points.groupby("round", as_index=False)["loss"].mean()
        points = pd.concat([points, mean.assign(kind="mean", client="mean of clients")])
        looks, kinds["mean"] = {}, {"color": "black", "linewidth": 2, "label": "{}"}
        kinds["client"] = {**kinds["client"], "color": GREY, "linewidth": 0.7}
    x, y = Axis("rounds", "round"), Axis("loss: disliked recommendations so far", "loss")
    return FigurePanel(points=points, x=x, y=y, series="client", looks=looks, kinds=kinds, title=heading)
