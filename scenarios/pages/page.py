"""A page of one or several subjects, and where it is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from coordinator.protocol.errors import InputError
from scenarios.pages.belief import EVEN, PRIORS, in_short
from scenarios.pages.families import FAMILIES
from scenarios.pages.grids import words
from scenarios.pages.promise import EVERYWHERE
from scenarios.pages.subject import Subject, read_subject
from scenarios.pages.told import Lines, Told
from scenarios.pages.traced import shown
from scenarios.store.files import to_json

if TYPE_CHECKING:
    from scenarios.pages.drawn import Drawn

MOST_SUBJECTS = 24
_DIGESTS = ("releases_sha256", "recommendations_sha256", "model_digest")
_EXPERIMENTS = frozenset({"run", "online", "two-tier"})


@dataclass(frozen=True, slots=False, kw_only=True)
class Section:
    """A subject on a page.

    Attributes
    ----------
    subject : Subject
    told : Told
        What its family says.
    """

    subject: Subject
    told: Told

    @cached_property
    def figures(self) -> Sequence[Drawn]:
        """Its pictures."""
        from scenarios.pages.drawn import drawn_of  # noqa: PLC0415 (plotting, where something is drawn)

        return drawn_of(self.subject)

    @property
    def in_short(self) -> tuple[Markup, Markup] | None:
        """Its epsilons, and what an even guess can become; None where no epsilon bounds that."""
        return in_short(self.told.believed) if self.told.believed and self.told.whole else None

    @property
    def unbounded(self) -> bool:
        """Whether no epsilon bounds what somebody can learn; else a record may just not name it."""
        return any(one.loud for one in self.told.promises)

    @property
    def command(self) -> Markup | None:
        """The command that was typed; None where it was not kept."""
        typed = self.subject.of("versions").get("command")
        return None if typed is None else shown(typed)

    @property
    def again(self) -> Markup | None:
        """The command that repeats an experiment from the scenario on the page; None where there is none."""
        scenario, repeat = self.scenario, self.subject.record.get("repeat")
        if scenario is None or self.subject.family not in _EXPERIMENTS:
            return None
        seeds = Markup(" --repeat {}").format(shown(repeat)) if repeat else ""
        document = self.subject.of("scenario").value or self.subject.of("mark").value
        code = " --allow-code" if any(":" in str(document.get(name, "")) for name in ("design", "policy")) else ""
        return Markup("blindrec {} scenario.json{}{} --backend inprocess").format(self.subject.family, seeds, code)

    @property
    def scenario(self) -> str | None:
        """The scenario's file, as it is; of sweeps what all units depend on."""
        found = self.subject.documents.get("scenario") or self.subject.documents.get("mark")
        return None if found is None else to_json(dict(found)).rstrip()

    @property
    def made(self) -> Lines:
        """What it was made with: digests, time, versions."""
        told, record = self.subject.of("versions"), self.subject.record
        ratings = [("SHA-256 of the file that was read", shown(one)) for one in [told.get("source_sha256")] if one]
        digests = [(words(name), shown(one)) for name in _DIGESTS if (one := record.get(name))]
        time = [("ended", shown(one)) for one in [told.get("ended")] if one]
        versions = [(name, shown(one)) for name, one in (told.get("versions") or told).items() if name not in _TOLD]
        result = Markup('<data value="{}" data-digest="sha256">{}</data>')
        own = [("SHA-256 of the result's file", result.format(self.subject.record.place, self.subject.sha256))]
        return [*time, *own, *digests, *ratings, *versions]


_TOLD = frozenset({"command", "ended", "run_sha256", "source_sha256", "versions"})


def report_of(paths: Sequence[Path]) -> str:
    """Return the page of some folders of `--out` and files of `--json`.

    Parameters
    ----------
    paths : sequence of Path
        At least one; a section each, in this order.

    Returns
    -------
    str
        HTML that loads nothing. The same results make the same page.

    Raises
    ------
    InputError
        If one of them holds no result, or too many are given.
    """
    if not 1 <= len(paths) <= MOST_SUBJECTS:
        raise InputError(f"{len(paths)} results are given; a report takes from 1 to {MOST_SUBJECTS}")
    subjects = [read_subject(path, number) for number, path in enumerate(paths, 1)]
    sections = [Section(subject=one, told=FAMILIES[one.family](one)) for one in subjects]
    loader = PackageLoader("scenarios.pages")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    sheet = Markup(pages.get_template("style.css").render())
    return pages.get_template("page.html").render(
        sections=sections, sheet=sheet, priors=PRIORS, even=EVEN, limits=EVERYWHERE
    )
