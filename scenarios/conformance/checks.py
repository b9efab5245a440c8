"""The checks in their order, and how they are made: none stops the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import BlindrecError
from coordinator.protocol.own import Mechanism
from scenarios.conformance import channel_checks, crossing_checks, device_checks, server_checks
from scenarios.conformance.estimates_check import estimates
from scenarios.conformance.finding import Told, skipped, subjects
from scenarios.conformance.refusal_check import refusals
from scenarios.conformance.sampler_check import sampler
from scenarios.conformance.subject import Subject
from scenarios.conformance.verdicts import FAILED, HELD, UNCHECKED, Conformance, Failed, Row, Unchecked


class Check(NamedTuple):
    """One check.

    Attributes
    ----------
    name : str
        A short name.
    meaning : str
        What it makes sure of.
    holds : callable
        Returns figures in words where it holds, and raises a verdict otherwise.
    """

    name: str
    meaning: str
    holds: Callable[[Subject], str]

    def of(self, subject: Subject) -> Row:
        """Return what comes of it; whatever is raised on the way is a failure of the mechanism."""
        try:
            verdict, told = HELD, self.holds(subject)
        except Failed as failed:
            verdict, told = FAILED, str(failed)
        except Unchecked as reason:
            verdict, told = UNCHECKED, str(reason)
        except BlindrecError as error:
            verdict, told = FAILED, str(error)
        except Exception as error:  # one's own code may raise anything
            verdict, told = FAILED, f"{type(error).__name__}: {error}".splitlines()[0]
        return Row(mechanism=subject.label, check=self.name, meaning=self.meaning, verdict=verdict, told=told)


CHECKS = (
    Check("log-ratio", "the channel gives away epsilon, neither more nor less", channel_checks.log_ratio),
    Check("run's size", "so it does in closed form, in a catalogue of a run", channel_checks.at_the_runs_size),
    Check("sampler", "what devices release follows the channel", sampler),
    Check("crossing", "queries, releases and whole numbers cross, and nothing else", crossing_checks.crossing),
    Check("silence", "who answers follows from public things alone", crossing_checks.silence),
    Check("layouts", "the releases are the same on every layout", device_checks.layouts),
    Check("ledger", "a new query costs epsilon, a repeat nothing", device_checks.ledger),
    Check("refusals", "what is no query is refused, and nothing charged", refusals),
    Check("merging", "statistics of blocks add up to that of all", crossing_checks.merging),
    Check("settings", "every setting has its words, the same everywhere", server_checks.settings),
    Check("estimates", "values rise with the truth, and err as they say", estimates),
    Check("prediction", "runs put right what its moments predict", server_checks.prediction),
)
"""What is checked of every mechanism with every choice of its settings."""


def conformance(subjects: Iterable[Subject], checks: Iterable[Check] = CHECKS) -> Conformance:
    """Return what every check finds of every subject."""
    asked = list(checks)
    return Conformance(tuple(check.of(subject) for subject in subjects for check in asked))


def check(mechanism: str | Mechanism, *, settings: Told | None = None, epsilon: Epsilon = None) -> Conformance:
    """Check that a mechanism keeps what every mechanism must keep.

    Parameters
    ----------
    mechanism : str or Mechanism
        Its name, or ``package.module:Name`` of one's own, or one's own with its settings.
    settings : dict, optional
        Its settings that are not the default; by default every choice that can be listed is checked.
    epsilon : Fraction, optional
        Where its channel is enumerated, alone [nats]; by default at 0.1, 1 and 3.

    Raises
    ------
    InputError
        If there is no such mechanism, or it cannot be asked so.
    """
    found = subjects(mechanism, settings or None)
    made = conformance(found if epsilon is None else [replace(one, epsilons=(epsilon,)) for one in found])
    left_out = [] if settings else skipped(mechanism)
    words = {"check": "settings", "meaning": "twice a number is taken, too", "verdict": UNCHECKED}
    return Conformance(made.rows + tuple(Row(mechanism=label, told=told, **words) for label, told in left_out))
