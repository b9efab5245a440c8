"""The tables and the picture of the page on adaptive rounds: what they save there, and locally.

``python -m benchmarks.adaptive_shuffled --results FOLDER`` takes from every file that `blindrec run --policy eliminate
--repeat S --json FILE` wrote into the folder the users that a run asked, computes those of one round from exact
moments, and writes both to docs/adaptive-shuffled.json. From that alone it makes tables and picture; without a folder
it only makes these anew.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from matplotlib.figure import Figure

from benchmarks.pages import ROOT
from benchmarks.worth import POINTS, digest, replaced, table
from scenarios.config.run_spec import load_scenario
from scenarios.show.drawing import draw_picture, styled
from scenarios.show.picture import Axis, FigurePanel, Picture, by_place
from scenarios.studies.planner.least_users import Target, predicted_users
from scenarios.studies.scrutiny.shuffling import local_epsilon
from scenarios.theory.predictors import predictor

DATA, PICTURE = "docs/adaptive-shuffled.json", "docs/adaptive-shuffled.png"
PAGE = "docs/explanation/adaptive-rounds.md"
WORLD: dict[str, Any] = {"design": "sign", "rated": 30, "like": "0.9,0.1"}
DELTA, OF_MANY = 1e-6, 1e-7  # The second is that of more than a million users in one round
LARGE = 8.0  # Local epsilon from which that of one round is sought [nats]
LOCAL, SHUFFLED = "local", "shuffled"
KINDS = tuple(f"{trust}, {rounds}" for trust in (LOCAL, SHUFFLED) for rounds in ("one round", "adaptive"))
ORDER = ("items", "epsilon", "trust", "policy", "smallest_round")
Rows = Sequence[dict[str, Any]]


def one_round(items: int, epsilon: float, trust: str) -> int:
    """Return the users of one round for all labels right with probability .95, by exact moments."""
    target, local = Target(success=0.95, accuracy=None), epsilon if trust == LOCAL else LARGE
    while True:
        scenario = load_scenario(None, {**WORLD, "items": items, "epsilon": local}).complete()
        prediction = predictor(scenario)
        assert prediction is not None  # sign sensing has moments
        users = predicted_users(prediction, target)
        assert users is not None  # of no world here
        if trust == LOCAL:
            return users
        delta = DELTA if users * DELTA < 1 else OF_MANY
        allowed = local_epsilon("sign", users, epsilon=str(epsilon), delta=delta, items=items, own_questions=True)
        if allowed.epsilon_local == local:
            return users
        local = allowed.epsilon_local


def rows_of(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a row of each file of runs, and one of one round for each world that they are of."""
    worlds = set()
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        low, high = record["intervals"]["asked"]
        row = {"items": record["items"], "epsilon": record["epsilon"], "trust": record["trust_model"]}
        worlds.add(tuple(row.values()))
        law = "smallest_round_reason" in record
        yield {
            **row,
            "policy": record["policy"],
            "users": round(record["asked"]),
            "low": round(low),
            "high": round(high),
            "seeds": record["repeat"],
            "all_right": round(record["exact"] * record["repeat"]),
            **{name: record[name] for name in ("smallest_round", "epsilon_local") if name in record},
            **({"by_law": law} if row["trust"] == SHUFFLED else {}),
        }
    for items, epsilon, trust in sorted(worlds):
        row = {"items": items, "epsilon": epsilon, "trust": trust, "policy": "one-round"}
        yield {**row, "users": one_round(items, epsilon, trust)}


def points(data: Rows) -> pd.DataFrame:
    """Return what is drawn: users against items, a line for each trust model with one round and with adaptive ones."""
    lines = [
        {"epsilon": row["epsilon"], "label": f"{row['trust']}, {_rounds(row)}", "x": float(row["items"])}
        | {"y": float(row["users"])}
        | {name: float(row[name if name in row else "users"]) for name in ("low", "high")}
        for row in data
        if row.get("by_law", True)
    ]
    return pd.DataFrame(lines).sort_values(["epsilon", "label", "x"], ignore_index=True)


def _rounds(row: dict[str, Any]) -> str:
    return "one round" if row["policy"] == "one-round" else "adaptive"


def picture(data: Rows) -> Picture:
    """Return the picture, a panel for each epsilon."""
    every = points(data)
    panels = [
        FigurePanel(
            points=every[every["epsilon"] == epsilon],
            x=Axis("items N", "x", "log", ticks="value"),
            y=Axis("users for all labels right", "y", "log"),
            looks=by_place(KINDS),
            title=f"epsilon {epsilon:g}",
        )
        for epsilon in sorted(set(every["epsilon"]))
    ]
    return Picture("adaptive-shuffled", "Users of one round and of adaptive rounds", "", panels, points=every)


def blocks(data: Rows) -> Iterator[tuple[str, str]]:
    """Yield the page's table, at epsilon 1, with its name; the picture has all."""
    cells = {(row["items"], row["epsilon"], row["trust"], _rounds(row)): row for row in data if row.get("by_law", True)}
    lines = []
    for items, epsilon in sorted({key[:2] for key in cells if key[1] == 1}):
        line = [f"{items:,}", f"{epsilon:g}"]
        for trust in (LOCAL, SHUFFLED):
            one, adaptive = (cells[items, epsilon, trust, rounds] for rounds in ("one round", "adaptive"))
            line += [f"{one['users']:,}", _mean(adaptive)]
            line += [f"{adaptive['smallest_round']:,}"] if trust == SHUFFLED else []
            line += [f"{one['users'] / adaptive['users']:.2f}"]
        lines.append(line)
    head = ["N", "epsilon", "local, one round", "local, adaptive", "ratio", "shuffled, one round", "shuffled, adaptive"]
    yield "adaptive", table([*head, "smallest round", "ratio"], lines)


def _mean(row: dict[str, Any]) -> str:
    return f"{row['users']:,} ± {(row['high'] - row['low']) / 2 / row['users']:.1%}".replace("%", " %")


def differing(data: Rows, root: Path = ROOT) -> list[str]:
    """Return which table or picture says something else than the data."""
    text = (root / PAGE).read_text(encoding="utf-8")
    wrong = [name for name, block in blocks(data) if replaced(text, name, block) != text]
    return wrong + ([] if digest(points(data)).encode() in (root / PICTURE).read_bytes() else [PICTURE])


def write(data: Rows, root: Path) -> None:
    """Write tables and picture."""
    page = root / PAGE
    for name, block in blocks(data):
        page.write_text(replaced(page.read_text(encoding="utf-8"), name, block), encoding="utf-8")
    figure = Figure()
    draw_picture(picture(data), figure)
    with styled():
        figure.savefig(root / PICTURE, metadata={POINTS: digest(points(data))})


def main(
    results: Annotated[Path | None, typer.Option(help="Folder of files that runs of --repeat wrote by --json.")] = None,
    root: Annotated[Path, typer.Option(help="The project's folder.")] = ROOT,
) -> None:
    """Make tables and picture from the data, and before that the data from results if there are some."""
    store = root / DATA
    if results is not None:
        rows = sorted(rows_of(results), key=lambda row: [row.get(name, 0) for name in ORDER])
        lines = ",\n".join(json.dumps(row) for row in rows)
        store.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    write(json.loads(store.read_text(encoding="utf-8")), root)


if __name__ == "__main__":
    typer.run(main)
