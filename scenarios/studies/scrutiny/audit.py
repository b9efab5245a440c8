"""Audits of a mechanism, by its name or a custom one: the views that there are, and the one that an audit takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from coordinator.protocol.custom import Mechanism
from coordinator.protocol.errors import InputError
from coordinator.protocol.trust_models import LOCAL
from scenarios.studies.scrutiny.attacks import CONFIDENCE, View, attack_view
from scenarios.studies.scrutiny.history_view import HistoryView
from scenarios.studies.scrutiny.mechanism_under_test import Choice
from scenarios.studies.scrutiny.release_view import ReleaseView
from scenarios.studies.scrutiny.servers_view import MakeServer, ServersView
from scenarios.studies.scrutiny.shuffler_view import MakeShuffler, ShufflerView
from scenarios.studies.scrutiny.two_tier_view import TwoTierView
from scenarios.studies.scrutiny.verdicts import Audit

VIEWS: tuple[type[View[Any]], ...] = (ReleaseView, TwoTierView, ShufflerView, ServersView, HistoryView)
"""All views; of several with one flag that is taken which is about the mechanism, else the first."""


def audit(
    design: str | Mechanism | None = None,
    *,
    trust: str = LOCAL,
    periods: int | None = None,
    epsilon: Fraction | float | str | None = None,
    epsilon_local: Fraction | float | str | None = None,
    delta: float | None = None,
    settings: Choice | None = None,
    releases: int | None = None,
    rounds: int | None = None,
    users: int | None = None,
    items: int | None = None,
    rated: int | None = None,
    confidence: float = CONFIDENCE,
    own_questions: bool = False,
    shuffler: MakeShuffler | None = None,
    servers: MakeServer | None = None,
) -> Audit:
    """Attack a mechanism's real releases, and hold what they give away against its claim and its exact law.

    An attacker sees what a trust model shows it, knows which two inputs the victim has by a fair coin, and what all
    other devices hold. An honest mechanism fails with probability ``1 - confidence`` at most (Clopper and Pearson,
    1934, Bonferroni over the attacks); the event that an attack counts is chosen on other releases than those that
    measure it.

    Parameters
    ----------
    design : str or Mechanism
        A mechanism's name, also one of two tiers, or ``package.module:Name`` of a custom one, or a custom one itself.
    trust : {"local", "shuffled", "two-servers"}
        Who gets the releases: the server, a shuffler before it, or two servers that add up shares and publish sums.
    periods : int, optional
        Attack histories instead: of people who answer the set mechanism in so many periods, and of sums.
    epsilon : Fraction, float or str, optional
        What one release may cost [nats], by default 1; behind a shuffler and of sums the central epsilon of a round; of
        periods that of a history, or of each period where that is the practice.
    epsilon_local : Fraction, float or str, optional
        Behind a shuffler, instead: epsilon of each device's report [nats]; the central one follows.
    delta : float, optional
        Of a central guarantee; by default 0.001, and at most ``1 / users``. At those that a run should have nothing can
        be measured. With 0, sums have Laplace noise.
    settings : dict, optional
        The mechanism's settings that are not the default.
    releases : int, optional
        How many releases each attack looks at, by default a million; of long ones, and of two tiers, fewer. Behind a
        shuffler, and of two servers, how many all look at [8,000,000; 100,000]; of periods how many people [4,000].
    rounds : int, optional
        Queries that the attacks over several rounds look at [4].
    users : int, optional
        Devices of a round, all honest [200; two servers: 20]; of periods, people whose reports are linked [10,000].
    items, rated : int, optional
        Size of the catalogue [5; two servers: 6; periods: 9,724], and how many items a device rated at most [3;
        periods: 20]. Two inputs of sums differ most from twice as many items on.
    confidence : float
        Probability that all lower bounds hold.
    own_questions : bool
        Behind a shuffler: whether devices draw their questions from private coins, and report them.
    shuffler, servers : callable, optional
        What makes the shuffler of a round from its query and agreement, and what each of the two servers; by default
        those of runs.

    Raises
    ------
    InputError
        If there is no such mechanism, it cannot be seen so, or an option is about other views.

    Examples
    --------
    >>> result = audit("grr", trust="shuffled", users=20, epsilon_local=3, delta=1e-2, releases=20_000)
    >>> result.held, result["epsilon"] < result["epsilon_local"]
    (True, True)
    """
    every = {name: value for name, value in locals().items() if name not in {"trust", "releases", "confidence"}}
    options = {name: value for name, value in every.items() if value is not None and value is not False}
    view, options = view_of(trust, options)
    number = view.releases if releases is None else releases
    return attack_view(view(**options), releases=number, confidence=confidence)


def view_of(trust: str, options: Mapping[str, Any]) -> tuple[type[View[Any]], dict[str, Any]]:
    """Return the view that options choose, and those that it takes; options about other flags are refused."""
    periods, design = "periods" in options, options.get("design")
    views = _views_of("--periods" if periods else f"--trust {trust}")
    view = next((view for view in views if len(views) > 1 and design in view.designs()), views[0])
    if periods and trust != LOCAL:
        options = {"trust": trust, **options}
    for name, value in options.items():
        flags = dict.fromkeys(other.flag for other in VIEWS if name in _parameters_of(other))
        if view.flag not in flags:
            more = f", but about {', '.join(flags)}" if flags else ""
            raise InputError(f"{name} is {value}, which is not about {view.flag}{more}; leave one of them out")
    parameters = _parameters_of(view)
    if design is None and "design" in parameters:
        raise InputError("design is None; give a mechanism's name, or a Mechanism")
    return view, {name: value for name, value in options.items() if name in parameters}


def _views_of(flag: str) -> list[type[View[Any]]]:
    if views := [view for view in VIEWS if view.flag == flag]:
        return views
    names = dict.fromkeys(view.flag.removeprefix("--trust ") for view in VIEWS if view.flag.startswith("--trust "))
    raise InputError(f"trust is {flag.removeprefix('--trust ')!r}; choose one of {', '.join(names)}")


def _parameters_of(call: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(call).parameters)


def design_names(trust: str, *, own_questions: bool = False) -> list[str]:
    """Return the names of all mechanisms that can be audited under a trust model."""
    options = {"own_questions": True} if own_questions else {}
    return [
        name
        for view in _views_of(f"--trust {trust}")
        for name in view.designs(**(options if "own_questions" in _parameters_of(view.designs) else {}))
    ]
