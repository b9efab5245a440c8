"""What is proved of p-REC and its rivals, and what no algorithm can go below: disliked recommendations and epsilon.

All functions take T rounds of m objects, at most N voters, of whom at least P are the client's peers, and a client's
diversity D and radius R, and refuse numbers that no client and no voters can have. Epsilons are in nats.
"""

import bisect
import functools
import math

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.compiled import compiled
from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import NO_LIMIT, PublicFacts, bounded_names, recommender_of
from coordinator.server.online.weighting import Weighting, chances


def check(rounds: int, objects: int, voters: int, peers: int, diversity: int = 0, radius: int = 0) -> None:
    """Refuse numbers that no client and no voters can have."""
    if rounds < 2:
        raise InputError(f"rounds is {rounds}: the bounds hold for T >= 2; give at least 2")
    if objects < 2:
        raise InputError(f"objects is {objects}: a round has m >= 2 objects; give at least 2")
    if peers < 1:
        raise InputError(f"peers is {peers}: the bounds hold for P >= 1; give at least 1")
    if voters < peers:
        raise InputError(f"voters is {voters}, fewer than peers {peers}: peers are voters; give N >= P")
    if diversity < 0 or radius < 0:
        raise InputError(f"diversity is {diversity} and radius {radius}: they count rounds; give 0 or more")


_GRID = 400_001


def loss_bound(
    recommender: str, rounds: int, objects: int, voters: int, peers: int, diversity: int = 0, radius: int = 0
) -> float | None:
    """Return how many disliked recommendations are expected at most.

    >>> round(loss_bound("p-rec", 1000, 2, 256, 4, 5, 5), 1), round(loss_bound("p-rec-lean", 1000, 2, 256, 4, 5, 5), 1)
    (203.5, 120.3)
    """
    check(rounds, objects, voters, peers, diversity, radius)
    two_objects(recommender, objects)
    named = recommender_of(recommender)
    if named.proved_loss is not None:
        shape = {"diversity": diversity, "radius": radius, "peers": peers, "voters": voters}
        return named.proved_loss(PublicFacts(rounds=rounds, objects=objects, **shape))
    if not named.bounded_at(diversity, radius):
        return None
    coin, nats = 1 - 1 / objects, math.log(voters / peers)
    # (L): each loss takes ``n / 2m`` of the survivors' R-credit; and the hidden coin
    credit = 2 * objects * (radius + strikes_to_die(recommender, diversity, radius) * nats)
    bound = credit + coin + (1 if named.sharp else 0)
    if diversity + radius == 0:  # p-REC_sim's, with the sharp constant for two objects
        factor = halving_constant(rounds, sharp=named.sharp) if objects == 2 else -1 / math.log1p(-1 / (2 * objects))
        bound = min(bound, factor * nats + 1 - 1 / objects)
    return bound


def loss_lower_bound(rounds: int, objects: int, voters: int, peers: int, radius: int = 0) -> float:
    """Return how many disliked recommendations any algorithm expects, private or not (Theorem 6).

    It is ``R (1 - 1/m) + 1/2 floor(log2(N/P))``, where T rounds suffice for that.

    >>> loss_lower_bound(1000, 2, 64, 1, 32)
    19.0
    """
    check(rounds, objects, voters, peers, 0, radius)
    first = min(radius, rounds)
    halvings = min((voters // peers).bit_length() - 1, rounds - first)
    return first * (1 - 1 / objects) + halvings / 2


def slow_halving_loss(recommender: str, voters: int, peers: int, diversity: int = 0, radius: int = 0) -> float:
    """Return about how much the slow-halving adversary costs p-REC: ``B log2(N/P)``, for large D (spec section 4)."""
    check(2, 2, voters, peers, diversity, radius)
    return strikes_to_die(recommender, diversity, radius) * math.log2(voters / peers)


def strikes_to_die(recommender: str, diversity: int, radius: int) -> int:
    """Return B, how many R-strikes kick a voter out."""
    most = recommender_of(recommender).limits(diversity, radius).radius_strikes
    if most == NO_LIMIT:
        raise InputError(f"recommender {recommender} kicks nobody out; choose one of {', '.join(bounded_names())}")
    return most + 1


def two_objects(recommender: str, objects: int) -> None:
    """Refuse more than two objects for the weighting that knows two only."""
    if recommender_of(recommender).sharp and objects != 2:
        raise InputError(f"objects is {objects}: {recommender} weighs two objects only; give 2, or take p-rec-lean")


@functools.cache
def halving_constant(rounds: int, *, sharp: bool = False) -> float:
    """Return c_T, the most loss that a nat of ``ln(N/P)`` costs p-REC_sim where m = 2 (spec section 4).

    >>> round(halving_constant(100), 5)
    1.10417
    """
    weighting = Weighting(rounds=rounds, objects=2, sharp=sharp)
    # Above 1 - rho the share q is 1 and the ratio falls, so the grid may end there.
    rho = 1 / weighting.part if weighting.part else 0.0
    y = np.linspace(rho, 1 - rho, _GRID)[1:-1]
    logs = log_phi(weighting, y) - log_phi(weighting, 1 - y)
    shares: Floats = np.exp(logs - np.logaddexp(0.0, logs))
    return float((shares / -np.log1p(-y)).max())


def log_phi(weighting: Weighting, share: Floats) -> Floats:
    """Return ``ln phi(x)`` for shares above rho, as `coordinator.server.online.weighting.chances` computes it."""
    rho = 1 / weighting.part if weighting.part else 0.0
    return np.asarray(weighting.steepness * share + np.log(-np.expm1(-weighting.steepness * (share - rho))))


def epsilon_proved(
    recommender: str,
    rounds: int,
    objects: int,
    voters: int,
    peers: int,
    diversity: int = 0,
    radius: int = 0,
    epsilon: float = math.inf,
) -> float | None:
    """Return the least epsilon that is proved of a recommender; None where nothing is.

    It is what the recommender declares of itself (0 for `random`, its own ``epsilon`` for `naive`), else Theorem P's.

    >>> round(epsilon_proved("p-rec-sim", 10**6, 2, 800, 20), 3)
    3.615
    """
    check(rounds, objects, voters, peers, diversity, radius)
    two_objects(recommender, objects)
    named = recommender_of(recommender)
    if named.proved_epsilon is not None:
        shape = {"diversity": diversity, "radius": radius, "peers": peers, "voters": voters}
        return named.proved_epsilon(PublicFacts(rounds=rounds, objects=objects, epsilon=epsilon, **shape))
    if not named.bounded_at(diversity, radius):
        return None
    epsilon_bound = theorem_p(recommender, rounds, objects, peers, diversity, radius, voters=voters)
    if diversity + radius == 0:  # all of them are p-REC_sim then
        first_strike = theorem_p("p-rec-sim", rounds, objects, peers, voters=voters)
        sim_bound = theorem_p_sim(rounds, peers, sharp=named.sharp) if objects == 2 else first_strike
        epsilon_bound = min(epsilon_bound, sim_bound)
    return epsilon_bound


def theorem_p(
    recommender: str,
    rounds: int,
    objects: int,
    peers: int,
    diversity: int = 0,
    radius: int = 0,
    *,
    voters: int | None = None,
) -> float:
    """Return Theorem P's epsilon; N sharpens the terms of the voters that are struck by ``1 - P/N``.

    >>> round(theorem_p("p-rec", 10**6, 2, 40, 8, 8) * 40 / math.log(10**6), 6)
    528.0
    """
    if rounds < objects:  # Lemma B is not proved there
        raise InputError(
            f"rounds is {rounds} and objects {objects}: Theorem P needs T >= m; give more rounds or fewer objects"
        )
    named = recommender_of(recommender)
    if not named.bounded or named.weighting is None:
        bounded = ", ".join(bounded_names())
        raise InputError(f"recommender is {recommender!r}: Theorem P bounds {bounded}; choose one of them")
    limits = named.limits(diversity, radius)
    radius_strikes = limits.radius_strikes + 1
    unsampled = 1.0 if voters is None else 1 - peers / voters
    # Rule A limits D-strikes instead of all strikes: types (b) and (d) then have their own limit.
    strikes = min(limits.diversity_strikes, limits.strikes) + 1
    followed = 2 * (strikes * unsampled + diversity + radius)
    missed = radius_strikes * unsampled + radius
    last = strikes + radius_strikes * (1 if limits.strikes <= limits.diversity_strikes else 2)
    weighting = named.weighting(rounds, objects)
    if objects == 2:
        most = max(followed + 2 * radius_strikes, 2 * missed + strikes)
    else:
        most = (2 * objects - 1) * missed + followed + last
    return weighting.steepness / peers * most


@functools.cache
def sim_constants(rounds: int, *, sharp: bool = False) -> dict[str, float]:
    """Return Theorem P_sim's suprema for two objects: K_a, K_b, K_+, K_- and ``C_T = lambda / ln T * max(K_+, K_-)``.

    They are taken on a grid, and not interval-certified; ``sharp`` is the tuned weighting.

    >>> round(sim_constants(100)["C_T"], 4)
    4.2335
    """
    weighting = Weighting(rounds=rounds, objects=2, sharp=sharp)
    rho = 1 / weighting.part if weighting.part else 0.0
    x = np.linspace(rho, 1 - rho, _GRID)[1:-1]
    mine, other = log_phi(weighting, x), log_phi(weighting, 1 - x)
    total = np.logaddexp(mine, other)
    coin = 1 / rounds
    q = np.exp(mine - total)
    r = (1 - coin) * np.exp(weighting.steepness * x - total)
    r_other = (1 - coin) * np.exp(weighting.steepness * (1 - x) - total)
    h = (r * np.exp(other - total) + q * r_other) / (coin / 2 + (1 - coin) * q)
    k_a, k_b = float(((1 - x) * h).max()), float((x * h).max())
    k_plus = float(((1 - x) * (k_b + (1 - x) * h)).max())
    k_minus = max(k_a, float((x * (k_a + x * h)).max()))
    most = weighting.steepness / math.log(rounds) * max(k_plus, k_minus)
    return {"K_a": k_a, "K_b": k_b, "K_+": k_plus, "K_-": k_minus, "C_T": most}


def theorem_p_sim(rounds: int, peers: int, *, sharp: bool = False) -> float:
    """Return Theorem P_sim's epsilon: ``(1 + 1/P) C_T ln T / P``, for m = 2 and D = R = 0."""
    return (1 + 1 / peers) * sim_constants(rounds, sharp=sharp)["C_T"] * math.log(rounds) / peers


PAPER_SHARE = 0.0061  # Theorem 15's constant: (3/32) d(3/4 || 1/2) / 2, the paper's thresholds


def theorem_7(rounds: int, objects: int, voters: int, peers: int, loss: float) -> float:
    """Return the least epsilon of any algorithm with an expected loss of at most ``loss``, for D = R = 0.

    >>> round(theorem_7(10**6, 2, 80, 40, 5.0), 6)
    0.287823
    """
    _check(rounds, objects, voters, peers, 0, 0, loss)
    return max(0.0, math.log(rounds / (2 * loss)) / peers)


def narrowed(rounds: int, diversity: int, radius: int) -> tuple[int, int]:
    """Return the widest ``D' <= D`` and ``R' <= R`` in Theorem 15's range, ``D' + R' <= T/4``.

    Clients and voters within D' and R' are within D and R, too: what the narrower promise needs, the wider one needs.
    """
    least = min(diversity, rounds // 4)
    return least, min(radius, rounds // 4 - least)


def theorem_15(rounds: int, objects: int, voters: int, peers: int, diversity: int, radius: int, loss: float) -> float:
    """Return what epsilon any algorithm needs with D and R, by the paper's thresholds.

    >>> [round(theorem_15(1000, 2, 8, 4, wide, 120, 5.0), 6) for wide in (100, 150)]  # no more above T/4
    [0.3355, 0.38125]
    """
    _check(rounds, objects, voters, peers, diversity, radius, loss)
    if loss > rounds / 69:
        return 0.0
    return PAPER_SHARE * sum(narrowed(rounds, diversity, radius)) / peers


def epsilon_needed(
    rounds: int, objects: int, voters: int, peers: int, diversity: int, radius: int, loss: float | None
) -> float | None:
    """Return what epsilon any algorithm needs that promises a loss for all clients and voters with these numbers."""
    # Of Theorem 7, whose worlds with D = R = 0 are among these, and Theorem 15 the larger; none where two groups of
    # peers do not fit.
    if loss is None or loss <= 0 or voters < 2 * peers:
        return None
    needed = theorem_7(rounds, objects, voters, peers, loss)
    return max(needed, theorem_15(rounds, objects, voters, peers, diversity, radius, loss))


def conjecture(rounds: int, objects: int, voters: int, peers: int, diversity: int, radius: int, loss: float) -> float:
    """Return our strengthening of Theorem 15: a conjecture with an argument that nobody else has reviewed."""
    # It is ``3/64 (D + R) / P [(1 - eta) ln(T / 68.3 L) - ln 2]`` with ``L = max(loss, 0.03 (D + R) ln T)`` and ``eta =
    # 256/15 L/T``; 0 where that is negative or ``eta > 1/8``, and the largest over all from 1 to min(D + R, T/4) that
    # D' + R' may be. The argument: a loss of L makes an algorithm follow a lone voter with probability 1 - O(L/T), so
    # each disagreement of the two patterns costs ln(T/L) nats and not O(1). If it holds, it closes the paper's gap of a
    # factor log T (constant m).
    _check(rounds, objects, voters, peers, diversity, radius, loss)

    def epsilon(both: int) -> float:
        at_least = max(loss, 0.03 * both * math.log(rounds))
        eta = 256 / 15 * at_least / rounds
        if eta > 1 / 8:
            return 0.0
        return max(0.0, 3 / 64 * both / peers * ((1 - eta) * math.log(rounds / (68.3 * at_least)) - math.log(2)))

    # Concave where it is above 0: linear as long as the loss is the larger, and then ``x ((1 - ax) ln(b/x) - ln 2)``.
    most = sum(narrowed(rounds, diversity, radius))
    best = bisect.bisect_left(range(most), 0.0, key=lambda both: epsilon(both) - epsilon(both + 1))
    return epsilon(best)


def own_lower_bound(rounds: int, objects: int, voters: int, peers: int, diversity: int, radius: int) -> float:
    """Return what epsilon p-REC itself has at least, by its chain of 2P adjacent patterns (`chains`)."""
    _check(rounds, objects, voters, peers, diversity, radius, 1.0)
    return min(diversity + radius, rounds) * math.log(objects * (rounds - 1) + 1) / (2 * peers)


def _check(rounds: int, objects: int, voters: int, peers: int, diversity: int, radius: int, loss: float) -> None:
    check(rounds, objects, voters, peers, diversity, radius)
    if voters < 2 * peers:
        raise InputError(
            f"voters is {voters} and peers {peers}: the lower bound sets two groups of P voters against each other; "
            "give N >= 2P"
        )
    if not loss > 0:
        raise InputError(f"loss is {loss}: a lower bound by the loss needs one above 0; give the expected loss")


MOST_ROUNDS_TRIED = 3e8  # Ways to vote that one programme tries at most: minutes
MOST_EPSILON_VOTERS = {2: 4000, 3: 300}  # Voters up to which the programme ends within seconds, by objects


def epsilon_exact(
    recommender: str, *, rounds: int, objects: int, voters: int, peers: int, diversity: int, radius: int
) -> float | None:
    """Return a recommender's exact worst-case privacy loss [nats]."""
    named = recommender_of(recommender)
    facts = PublicFacts(rounds=rounds, objects=objects, diversity=diversity, radius=radius, peers=peers, voters=voters)
    if named.proved_epsilon is not None and named.proved_epsilon(facts) == 0:
        return 0.0
    if "epsilon" not in named.exact or diversity + radius or voters > MOST_EPSILON_VOTERS.get(objects, 0):
        return None
    return max(worst_case_sim(voters, peers, rounds, objects, sharp=named.sharp))


def worst_case_sim(
    voters: int, peers: int, rounds: int, objects: int = 2, *, sharp: bool = False
) -> tuple[float, float]:
    """Return the largest log-likelihood ratios of any recommended sequence when one voter is added.

    The result in nats.

    >>> [round(epsilon, 6) for epsilon in worst_case_sim(20, 5, 100)]
    [3.057735, 2.26223]
    """
    check(rounds, objects, voters, peers)
    if objects > 3 or (sharp and objects != 2):
        raise InputError(
            f"objects is {objects}: the exact worst case is computed for 2 (p-rec-sharp) or 2 and 3 objects"
        )
    tried = math.comb(voters + objects, objects) - math.comb(peers + objects - 1, objects)
    if tried > MOST_ROUNDS_TRIED:
        raise InputError(
            f"voters is {voters}, objects {objects}: the exact worst case tries {tried:.1e} ways to vote, more than "
            f"{MOST_ROUNDS_TRIED:.0e}; give fewer voters, or take the proved bound"
        )
    weighting = Weighting(rounds=rounds, objects=objects, sharp=sharp)
    worst = worst_by_survivors(voters, peers, objects, float(rounds), weighting.steepness, weighting.part)
    return float(worst[0].max()), float(worst[1].max())


@compiled
def worst_by_survivors(voters: int, peers: int, objects: int, rounds: float, steepness: float, part: int) -> Floats2:
    """Return the most that a sequence can become likelier (row 0) and less likely (row 1), by n survivors."""
    # Object 0 is recommended; the added voter votes for it, or for object 1. If it is struck, the programme ends; else
    # n is what survives. P peers need one liked object: the recommended one, or another one if it is disliked. Where
    # nobody dies nothing leaks: all voters agree, or nobody votes for what is recommended.
    worst = np.zeros((2, voters + 1))
    sums = np.zeros(objects)
    for n in range(peers, voters + 1):
        for first in range(n + 1):
            rest = n - first
            for second in range(rest if objects == 2 else 0, rest + 1):
                sums[0], sums[1] = first, second
                if objects == 3:
                    sums[2] = rest - second
                alone = math.log(chances(sums, rounds, steepness, part)[0])
                sums[0] += 1
                agrees = math.log(chances(sums, rounds, steepness, part)[0]) - alone
                sums[0] -= 1
                sums[1] += 1
                differs = math.log(chances(sums, rounds, steepness, part)[0]) - alone
                may_like = first >= peers
                may_dislike = max(second, rest - second) >= peers
                for sign in range(2):
                    up = agrees if sign == 0 else -agrees
                    down = differs if sign == 0 else -differs
                    best = worst[sign, n]
                    if may_like:
                        best = max(best, up + (worst[sign, first] if first < n else 0.0), down)
                    if may_dislike:
                        best = max(best, up, down + (worst[sign, rest] if first > 0 else 0.0))
                    worst[sign, n] = best
    return worst


MOST_STEPS = 3e10  # Splits that one programme tries at most: a minute
MOST_VOTERS = 5000


def worst_loss_sim(voters: int, peers: int, rounds: int, *, sharp: bool = False) -> float:
    """Return the most disliked recommendations that p-REC_sim expects, m = 2.

    >>> round(worst_loss_sim(16, 2, 50), 12)
    2.439543291059
    """
    check(rounds, 2, voters, peers)
    steps = rounds * float(voters) ** 2 / 2
    if steps > MOST_STEPS or voters > MOST_VOTERS:
        raise InputError(
            f"rounds is {rounds} and voters {voters}: the exact loss takes {steps:.1e} steps of at most "
            f"{MOST_STEPS:.0e}, and at most {MOST_VOTERS} voters; give fewer, or take the bound"
        )
    weighting = Weighting(rounds=rounds, objects=2, sharp=sharp)
    table = disliked_chances(voters, float(rounds), weighting.steepness, weighting.part)
    return float(worst_by_round(table, peers, rounds)[peers:].max())


@compiled
def disliked_chances(voters: int, rounds: float, steepness: float, part: int) -> Floats:
    """Return the probability of object 1 by survivors n and those c of them that vote for it, shape (N + 1, N + 1)."""
    table = np.zeros((voters + 1, voters + 1))
    sums = np.zeros(2)
    for n in range(1, voters + 1):
        for c in range(n + 1):
            sums[0], sums[1] = n - c, c
            table[n, c] = chances(sums, rounds, steepness, part)[1]
    return table


@compiled
def worst_by_round(table: Floats, peers: int, rounds: int) -> Floats:
    """Return the worst expected loss of ``rounds`` rounds by survivors n, where P of them must stay."""
    worst = np.zeros(table.shape[0])
    for _ in range(rounds):
        # From most survivors to fewest: a split leads to fewer, of whom the last round's value is still there.
        for n in range(table.shape[0] - 1, peers - 1, -1):
            best = 0.0
            for c in range(n - peers + 1):
                best = max(best, table[n, c] + worst[n - c])
            worst[n] = best
    return worst
