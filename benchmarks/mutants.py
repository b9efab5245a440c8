"""Mutation testing: one change at a time is made to what privacy and numbers hang on, and tests must notice it.

``make mutants`` draws a seeded sample of the mutants that Cosmic Ray's operators make of the modules in
`benchmarks/mutants.toml`, and runs the tests nearest to each (`benchmarks.laboratory`) in a copy of the tree, from
which the kernels of all that depends on the module are removed. The same command goes on where it stopped, and tries
survivors again whose tests have changed. The exit code is 1 if too many are alive.
"""

import difflib
import hashlib
import signal
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import pandas as pd
import typer

from benchmarks.laboratory import ROOT, Laboratory, keep, read
from benchmarks.rivals.environments import environment, outside

Mutant = dict[str, Any]
DYING = 0.95  # Share of the mutants that must die, of those that are not equivalent
OUTCOMES: Final = {0: "alive", -signal.SIGXCPU: "out of time", -signal.SIGKILL: "out of time"}
"""What an exit code says of a mutant; others are pytest's of a failure above 0, a signal's below."""


def changed(mutant: Mutant) -> dict[str, str]:
    """Return the lines that a mutant changes, before and after, without blanks around them."""
    before, after = (ROOT / mutant["module"]).read_text(encoding="utf-8"), str(mutant["source"])
    lines = list(difflib.unified_diff(before.split("\n"), after.split("\n"), n=0, lineterm=""))[3:]
    sides = [[line[1:].strip() for line in lines if line.startswith(sign)] for sign in "-+"]
    return {"before": "\n".join(sides[0]).strip(), "after": "\n".join(sides[1]).strip()}


def ended(mutants: Sequence[Mutant], laboratory: Laboratory, file: Path) -> list[Mutant]:
    """Test all mutants that a file does not have yet, add them to it, and return how each of them ended."""
    stored = {row["id"]: row for row in read(file)}
    rows: list[Mutant] = []
    for number, mutant in enumerate(mutants, start=1):
        name = hashlib.sha256(f"{mutant['module']} {mutant['source']}".encode()).hexdigest()[:12]
        row = stored.get(name)
        if row is None or row["outcome"] == "alive":
            files = laboratory.tests(mutant["module"])
            digest = laboratory.digest(files)
            if row is None or row["tests"] != digest:
                code, spent, by = laboratory.test(mutant["module"], mutant["source"], files)
                row = {
                    "id": name,
                    **{field: mutant[field] for field in ("module", "line", "operator")},
                    **changed(mutant),
                }
                row |= {
                    "outcome": OUTCOMES.get(code, "killed" if code > 0 else "crashed"),
                    "by": by,
                    "seconds": spent,
                    "tests": digest,
                }
                keep(file, row)
                where = f"{row['module']}:{row['line']} {row['operator']}"
                print(f"{number} {row['outcome']} {spent:.0f} s {where} {by}", flush=True)
        rows.append(row)
    return rows


def keys(mutant_list: Sequence[dict[str, str]]) -> set[tuple[str, ...]]:
    """Return module and lines, before and after, of the mutants that are listed as equivalent."""
    return {(mutant["module"], mutant["before"], mutant["after"]) for mutant in mutant_list}


def table(rows: Sequence[Mutant], mutant_list: Sequence[dict[str, str]]) -> pd.DataFrame:
    """Return the mutants, each with its folder and with what becomes of it where some are listed as equivalent."""
    frame = pd.DataFrame(rows)
    equivalents = keys(mutant_list)
    same = [key in equivalents for key in zip(frame.module, frame.before, frame.after, strict=True)]
    frame["outcome"] = frame.outcome.mask(frame.outcome.eq("alive") & pd.Series(same), "equivalent")
    return frame.assign(folder=frame.module.str.rpartition("/")[0])


def died(frame: pd.DataFrame) -> float:
    """Return the share of mutants that died, of those that are not equivalent."""
    return float((frame.outcome[frame.outcome != "equivalent"] != "alive").mean())


def main(
    sample: Annotated[int, typer.Option(help="How many mutants.")] = 200,
    seed: Annotated[int, typer.Option(help="Which mutants follows from it.")] = 0,
    of: Annotated[
        list[str] | None, typer.Option(help="Modules of this pattern, not those that the list names; may be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option(help="What is kept, and where mutants are tested.")] = ROOT / "build/mutants",
) -> None:
    """Change one thing at a time; the exit code is 1 if tests do not notice more than one in twenty."""
    mutant_list = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    modules = sorted(
        {str(path.relative_to(ROOT)) for pattern in of or mutant_list["modules"] for path in ROOT.glob(pattern)}
    )
    job = {"modules": modules, "sample": sample, "seed": seed}
    sample_result = outside(environment("cosmic-ray"), "cosmic_mutants", job)
    out.mkdir(parents=True, exist_ok=True)
    mutants, equivalents = sample_result["mutants"], keys(mutant_list["equivalent"])
    # Who lives costs most, a minute, and these say least
    mutants.sort(key=lambda mutant: (mutant["module"], *changed(mutant).values()) in equivalents)
    frame = table(ended(mutants, Laboratory(out.absolute()), out / "mutants.jsonl"), mutant_list["equivalent"])
    alive = frame[frame.outcome == "alive"]
    alive.to_csv(out / "survivors.csv", index=False)
    print(pd.crosstab(frame.folder, frame.outcome, margins=True).to_string())
    print(alive[["module", "line", "before", "after"]].to_string(index=False))
    print(f"{len(frame)} of {sample_result['places']} places in {len(modules)} modules; {100 * died(frame):.1f} % died")
    sys.exit(died(frame) < DYING)


if __name__ == "__main__":
    typer.run(main)
