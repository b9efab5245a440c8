"""A command of each family whose runs are long enough to be disturbed, with its progress and its result."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scenarios.store.manifest import FOLDER, PROGRESS

End = dict[str, Any]  # The part of a run's result that a kill must not change


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A command whose runs are disturbed."""

    command: tuple[str, ...]  # The command with its flags, except for its size
    size: str  # The flag for its size
    default: int  # The default size
    far: Callable[[Path], int]  # Returns the progress of the run in a folder
    whole: Callable[[dict[str, Any]], int]  # Returns the progress of a finished run, from its result
    lasting: tuple[str, ...]  # Keys of the result that must be the same
    table: str | None = None  # A file in the folder that must be the same as well
    kinds: tuple[str, ...]  # Actors that are killed beside the driver and a node, of `benchmarks.victims.ACTORS`

    def flags(self, size: int) -> list[str]:
        """Return the command's arguments."""
        return [*self.command, self.size, str(size)]

    def end(self, out: Path) -> End:
        """Return how the run in a folder ended. An `OSError` says that it has not ended."""
        result = json.loads((out / "result.json").read_text())
        model = {} if self.table is None else {self.table: hashlib.sha256((out / self.table).read_bytes()).hexdigest()}
        return {name: result[name] for name in self.lasting} | model


def _progress(name: str) -> Callable[[Path], int]:
    """Return what reads one number of the progress that a run reports in its folder."""

    def read(out: Path) -> int:
        try:
            return int(json.loads((out / FOLDER / PROGRESS).read_text())[name])
        except FileNotFoundError:  # the run has not begun, or has ended meanwhile
            return 0

    return read


_answers, _records = _progress("count"), _progress("rounds")


FAMILIES: Final = {
    "run": Family(
        command=(
            *("run", "--design", "sign", "--policy", "fixed", "--rounds", "3", "--answers-per-device", "3"),
            *("--items", "300", "--rated", "40", "--epsilon", "3"),
        ),
        size="--users",
        default=2_000_000,
        far=_answers,
        whole=lambda result: int(result["asked"]),
        lasting=("releases_sha256", "spent_max", "spent_mean", "answered"),
        table="items.parquet",
        kinds=("worker", "devices", "coordinator"),
    ),
    "shuffled": Family(
        command=(
            *("run", "--design", "set", "--policy", "fixed", "--rounds", "3", "--answers-per-device", "3"),
            *("--items", "300", "--rated", "40", "--epsilon", "3", "--trust", "shuffled"),
        ),
        size="--users",
        default=400_000,
        far=_answers,
        whole=lambda result: int(result["asked"]),
        lasting=("releases_sha256", "spent_max", "spent_mean", "answered", "epsilon", "epsilon_local"),
        table="items.parquet",
        kinds=("shuffler", "devices", "coordinator"),
    ),
    "years": Family(
        command=(
            *("run", "--design", "set", "--items", "300", "--rated", "40", "--epsilon", "1", "--trust", "shuffled"),
            *("--periods", "4", "--schedule", "front", "--drift", "0.02"),
        ),
        size="--users",
        default=200_000,
        far=_answers,
        whole=lambda result: int(result["asked"]),
        lasting=("releases_sha256", "spent_max", "spent_mean", "answered", "epsilon", "epsilon_local", "by_period"),
        table="items.parquet",
        kinds=("shuffler", "devices", "coordinator"),
    ),
    "two-servers": Family(
        command=(
            *("run", "--design", "totals", "--trust", "two-servers", "--items", "3000", "--rated", "40"),
            *("--epsilon", "1"),
        ),
        size="--users",
        default=60_000,
        far=_answers,
        whole=lambda result: int(result["asked"]),
        lasting=(
            *("releases_sha256", "words_server_sha256", "seeds_server_sha256", "spent_max", "spent_mean", "answered"),
        ),
        table="items.parquet",
        kinds=("words", "seeds", "devices", "coordinator"),
    ),
    "online": Family(
        command=("online", "--rounds", "400", "--voters", "2000", "--peers", "50", "--budget", "1e6"),
        size="--clients",
        default=40,
        far=_records,
        whole=lambda result: int(result["clients"]),
        lasting=("recommendations_sha256", "loss", "voter_loss", "refused", "peers_alive"),
        kinds=("devices", "coordinator"),
    ),
    "two-tier": Family(
        command=(
            *("two-tier", "--planted", "700,500,100000", "--public", "300", "--rank", "5", "--regularisation", "3"),
            *("--mechanism", "pmd", "--batch", "5"),
        ),
        size="--private",
        default=200,
        far=_records,
        whole=lambda result: -(-int(result["private"]) // 5),
        lasting=("releases_sha256", "model_digest", "rmse", "answered", "duplicates"),
        kinds=("devices", "public", "coordinator"),
    ),
}
"""The three families by their commands, runs behind a shuffler, of one also over periods, and one of two servers."""
