"""How much do further rounds help? Adaptive policies against one round, at several numbers of devices, as a table.

``python adaptive_experiment.py [FILE]`` writes it as CSV, a row for each run; pandas opens it.
"""

import sys
from pathlib import Path

import pandas as pd

import blindrec

POLICIES = ("one-round", "two_stages:TwoStages", "eliminate")
USERS = (20_000, 40_000)


def measure(users: tuple[int, ...] = USERS, *, seeds: int = 3, items: int = 100) -> pd.DataFrame:
    """Return a row for each policy, number of devices and seed; every policy meets the same devices."""
    rows = []
    for many in users:
        for policy in POLICIES:
            scenario = blindrec.Scenario(design="sign", items=items, rated=10, users=many, policy=policy)
            result = blindrec.run(scenario, blindrec.InProcess(), repeat=seeds, progress=False)
            rows.append(result.frame().assign(policy=policy, users=many))
    return pd.concat(rows, ignore_index=True)


def main(file: Path) -> None:
    """Measure, print the means, and write the table."""
    table = measure()
    kept = table[["policy", "users", "seed", "rounds", "answered", "accuracy"]]
    kept.to_csv(file, index=False)
    print(kept.groupby(["users", "policy"], sort=False)[["rounds", "answered", "accuracy"]].mean().round(3))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "adaptive.csv"))
