"""The pages of custom mechanisms and policies: their classes are short, and run as they stand on every layout."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from runs import Command, result

from benchmarks.pages import folder_of_pages, modules, read


# Pages that build something of one's own: their module as it stands there, or as a reader may change it, and run.
@dataclass(frozen=True)
class OwnPage:
    """A page and the module that it shows; tests work in a folder that holds it."""

    page: str
    module: str

    @property
    def text(self) -> str:
        return read(self.page)

    @property
    def code(self) -> str:
        return dict(modules(self.text))[self.module]

    @property
    def lines(self) -> int:
        return sum(1 for line in self.code.splitlines() if line.strip())


pytestmark = pytest.mark.usefixtures("undrawn")

PAGE = OwnPage("docs/tutorials/your-own-mechanism.ipynb", "oue.py")
RUN = ("run", "--design", "oue:OUE", "--items", 20, "--rated", 5, "--users", 2000, "--epsilon", 2)
POLICY_PAGE = OwnPage("docs/tutorials/your-own-policy.ipynb", "halves.py")
HERE = ("--backend", "inprocess")


@pytest.fixture(autouse=True)
def folder() -> Iterator[Path]:
    """A working directory with the pages' modules."""
    with folder_of_pages():
        yield Path.cwd()


def test_the_class_is_short_and_the_same_on_every_layout(blindrec: Command, folder: Path) -> None:
    assert PAGE.lines <= 30
    told = result(blindrec, *RUN, *HERE)
    assert told["channel"] == "checked exactly"
    for layout in (("--workers", 1, "--devices-per-actor", 2000), ("--workers", 2, "--devices-per-actor", 300)):
        assert result(blindrec, *RUN, *HERE, *layout)["releases_sha256"] == told["releases_sha256"]
    (folder / "oue.toml").write_text('design = "oue:OUE"\nodds = 2\nitems = 20\nrated = 5\nusers = 2000\nepsilon = 2\n')
    kept = result(blindrec, *RUN, "--setting", "odds=2", *HERE)["releases_sha256"]
    assert kept != told["releases_sha256"]
    assert result(blindrec, "run", "oue.toml", "--allow-code", *HERE)["releases_sha256"] == kept


@pytest.mark.thorough
@pytest.mark.statistical
def test_what_must_hold_of_every_mechanism_holds_of_it(blindrec: Command) -> None:
    """False alarm: 1e-6 of a sampler and 1e-5 of a prediction, for each choice of settings."""
    told = result(blindrec, "check", "oue:OUE")
    assert told["held"]
    of_channel = [row["verdict"] for row in told["rows"] if row["check"] in {"log-ratio", "run's size", "sampler"}]
    assert set(of_channel) == {"held"}


def test_the_policy_is_short_and_needs_nothing_else() -> None:
    assert POLICY_PAGE.lines <= 30
    imported = [node for node in ast.walk(ast.parse(POLICY_PAGE.code)) if isinstance(node, ast.Import | ast.ImportFrom)]
    roots = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imported}
    assert roots == {"dataclasses", "numpy", "blindrec"}
