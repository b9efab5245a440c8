"""Results of every family, made once: folders of runs and a comparison, records of the golden results, audits."""

import contextlib
import io
import json
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from markupsafe import Markup
from runs import planted_ratings, write_movielens

from coordinator.protocol.mechanism import LOCAL_PROMISE
from scenarios import cli
from scenarios.pages.page import report_of

GOLDEN = Path(__file__).parents[1] / "golden" / "golden.json"
RECORDS = {
    "two-tier, pmc": "pmc",
    "two-tier, laplace": "laplace",
    "two-tier, none": "silent",
    "online, clients and a budget": "online",
    "online, plurality": "plurality",
    "pairwise, equal, public, centred": "pairwise",
    "item-query": "item-query",
    "sweep, users": "users",
    "sweep, adaptive": "adaptive",
    "sweep, two-tier": "tiers",
    "plan": "plan",
    "plan, ratings, worth": "forecast",
    "data, people enough for a forecast": "crowd",
    "data": "data",
}
"""Golden results, and the names of their files."""
FAMILIES = {
    "run": "run",
    "compare": "compare",
    "pmc": "two-tier",
    "online": "online",
    "adaptive": "sweep",
    "plan": "plan",
    "data": "data",
    "leak": "audit",
}
"""Of each family a file, and the family's name."""
ATTACK = {"name": "one", "meaning": "this or that", "times": 1, "claimed": 1.0, "measured": 0.98, "plays": 50000}
AUDIT = {
    "design": "sign",
    "guarantee": LOCAL_PROMISE,
    "claimed": 1.0,
    "exact": 1.0,
    "measured": 0.98,
    "confidence": 0.99,
}
AUDIT |= {
    "confidence": 0.99,
    "held": True,
    "failures": [],
    "attacks": [{**ATTACK, "right": 0.7303, "right_at_most": 0.7310585786}],
}
LEAK = {**AUDIT, "measured": 1.25, "held": False, "failures": ["attack one measured at least 1.25, claimed are 1"]}
FEW = ["--like-from", "4", "--neighbours", "5", "--rank", "3", "--ridge", "5", "--top", "20", "--likes", "8"]


def undrawn_report(paths: Sequence[Path]) -> str:
    """A report with empty pictures, for tests that look at none: drawing them is most of the time that a page takes."""
    with patch("scenarios.pages.page.inline", lambda *_: Markup("<svg></svg>")):
        return report_of(paths)


def command(*arguments: object) -> None:
    said = io.StringIO()
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said)
    undrawn = patch("scenarios.studies.study.draw")  # a report draws its figures itself
    with quiet[0], quiet[1], undrawn, pytest.raises(SystemExit) as ended:
        cli.main([str(argument) for argument in arguments])
    assert not ended.value.code, said.getvalue()


def made(folder: Path) -> list[Path]:
    here = ["--backend", "inprocess"]
    block = ["--items", 12, "--rated", 4, "--epsilon", 3, "--users", 600]
    command("run", *block, "--repeat", 2, *here, "--out", folder / "run")
    ratings = write_movielens(folder / "ratings.csv", planted_ratings(users=40, items=30, each=12))
    command("run", "--ratings", ratings, "--users", 500, "--epsilon", 2, *here, "--out", folder / "copies")
    models = ["--trust-models", "none,curator,local", "--mechanisms", "popularity,set", "--epsilon", "2,inf"]
    command("compare", ratings, *FEW, *models, *here, "--scale", "1,5", "--seeds", 3, "--out", folder / "compare")
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    for name, file in RECORDS.items():
        record = golden[name].get("result", golden[name])
        for of in {"rows", "people"} & record.keys():  # which golden results hold as columns
            if columns := record[of]:
                record[of] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        (folder / f"{file}.json").write_text(json.dumps(record), encoding="utf-8")
    audits = {"audit": AUDIT, "leak": LEAK, "audits": {"held": False, "audits": [AUDIT, {**LEAK, "exact": "inf"}]}}
    for name, record in audits.items():
        (folder / f"{name}.json").write_text(json.dumps(record), encoding="utf-8")
    files = [folder / f"{name}.json" for name in (*RECORDS.values(), *audits)]
    return [folder / "run", folder / "copies", folder / "compare", *files]
