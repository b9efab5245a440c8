"""Pages of results that liars are about say so where everybody sees it."""

from __future__ import annotations

from pathlib import Path

from scenarios.show.schema import SCHEMAS, Subject
from scenarios.show.sections import section_of_experiment, section_of_plan

RUN = {"design": "sign", "trust_model": "local", "guarantee": "epsilon-local differential privacy", "epsilon": 1.0}
LIARS = {"malicious": 0.05, "recommended": {"design": "sign", "pool_size": 2, "users": 1249251}}


def _made(family: str, record: dict[str, object]) -> Subject:
    return Subject(number=1, path=Path("result.json"), schema=SCHEMAS[family], documents={"result": record})


def test_a_run_with_liars_warns_of_them() -> None:
    assert not section_of_experiment(_made("run", dict(RUN))).warnings
    (warning,) = section_of_experiment(_made("run", {**RUN, "malicious": 0.1, "attack": "untargeted"})).warnings
    assert "1/result#/malicious" in warning
    assert "of the devices lied" in warning


def test_a_plan_with_liars_says_what_they_take() -> None:
    assert not section_of_plan(_made("plan", {"target": "all"})).warnings
    (warning,) = section_of_plan(_made("plan", {"target": "all", "withstanding": LIARS})).warnings
    assert "1,249,251</data> users" in warning
    (none,) = section_of_plan(_made("plan", {"target": "all", "withstanding": {**LIARS, "recommended": None}})).warnings
    assert "no design is known to reach the target" in none
