"""Runs whose devices draw their own questions: trusted to nobody or to a shuffler, on every layout, in many rounds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import worlds
from runs import Command, account_of, alike, complains, here, refused, small

from actors.device import Cohort
from blindrec import amplified, local_epsilon, matrix_channel
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.amplification import kary_levels, shuffled_epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.trust_models import SHUFFLED
from coordinator.server.aggregation import aggregate
from coordinator.server.fleet.cohorts import plan_layout
from coordinator.server.fleet.intermediaries import read_shuffled
from coordinator.server.rounds.state import Ask
from coordinator.shuffler import Shuffler
from scenarios.config.resolve import resolve
from scenarios.families.main.main_columns import record

DESIGNS: dict[str, dict[str, Any]] = {
    "maxsense": {"design": "maxsense"},
    "multi-maxsense": {"design": "multi-maxsense", "questions": 2},
    "sign": {"design": "sign"},
    "sign in rounds": {"design": "sign", "policy": "eliminate", "smallest_round": 500},
    "anchor": {"design": "anchor", "smallest_round": 600},
    "olh": {"design": "olh"},
    "hadamard": {"design": "hadamard"},
    "pairwise": {"design": "pairwise", "agreement": "equal"},
}
EVERY = Agreement(trust=SHUFFLED)


@pytest.mark.few(3)
@pytest.mark.parametrize("design", DESIGNS)
def test_shuffled_runs_are_the_same_on_every_layout(design: str) -> None:
    """One and three workers, and blocks of other sizes, have one digest, one model and one set of rounds."""
    scenario = small(trust="shuffled", own_questions=True, dropout=0.02, **DESIGNS[design])
    once = here(scenario)
    assert alike(once, here(scenario, workers=3, devices_per_actor=517))
    result = record(once)
    assert result["own_questions"] is True
    assert result["trust_model"] == "shuffled"
    assert result["epsilon_local"] > result["epsilon"] == 1
    assert all(ask.query.own_questions for ask in once.outcome.state.asked)


@pytest.mark.parametrize("design", ["sign in rounds", "anchor"])
def test_rounds_are_of_fresh_devices_and_never_smaller_than_was_counted_on(design: str) -> None:
    scenario = small(trust="shuffled", own_questions=True, epsilon=2, **{**DESIGNS[design], "users": 40_000})
    over = here(scenario)
    rounds = over.outcome.state.asked
    assert len(rounds) > 1
    assert [ask.first for ask in rounds[1:]] == [ask.stop for ask in rounds[:-1]]
    fewest = DESIGNS[design]["smallest_round"]
    assert min(ask.stop - ask.first for ask in rounds) >= fewest
    account = account_of(over.resolved)
    assert account.devices == int(0.9 * fewest)
    assert {ask.query.epsilon for ask in rounds} == {account.answer_local}


def test_rounds_about_some_items_are_promised_whatever_pools_there_will_be() -> None:
    """K-ary reports amplify less the fewer values there are: the bound of all items would promise too much."""
    world = {"items": 200, "users": 90_000, "trust": "shuffled", "decoder": "posterior"}
    promise, whole = (
        account_of(resolve(small(design="grr", told="rated", **world, policy=policy)))
        for policy in ("eliminate", "fixed")
    )
    assert (promise.bound, whole.bound) == ("any randomizer", "two levels")
    of_one_item, twin = (
        shuffled_epsilon(kary_levels(3), local_epsilon=one.answer_local, devices=one.devices, delta=one.share_delta)
        for one in (promise, whole)
    )
    assert of_one_item <= 1 < twin
    bits = account_of(resolve(small(design="sign", policy="eliminate", trust="shuffled", own_questions=True)))
    assert bits.bound == "two levels"


def test_a_shuffler_refuses_questions_by_address() -> None:
    """As a policy of one's own may ask them, whatever the run says."""
    with complains("design sign", "address"):
        Shuffler(worlds.sign_query(range(40), items=40), EVERY)


def test_without_a_shuffler_own_questions_cost_eight_bytes_a_device() -> None:
    own, plain = (record(here(small(design="sign", own_questions=own))) for own in (True, False))
    assert 8 < own["bytes_per_answer"] - plain["bytes_per_answer"] < 8.1
    assert own["trust_model"] == plain["trust_model"] == "local"
    assert own["guarantee"] == plain["guarantee"]
    assert "own_questions" not in plain
    assert own["releases_sha256"] != plain["releases_sha256"]


def test_the_shuffler_hands_on_pairs_of_question_and_answer_and_nothing_else() -> None:
    """Sorted by question then answer, the same whoever came first, without the silent; their sums are the devices'."""
    world = worlds.world(items=40, rated=5, like=((0.9, 0.1),))
    asked = worlds.sign_query(range(40), items=40, vectors=4)
    asked = replace(asked, own_questions=True)
    devices = Cohort(worlds.block_ratings(world), worlds.SECRET, 0, 3000, None)
    blocks = [devices.answer(asked, *ends) for ends in ((0, 1000), (1000, 1016), (1016, 3000))]
    handed = []
    for order in (blocks, blocks[::-1]):
        shuffler = Shuffler(EVERY.stamped(asked), EVERY)
        for block in order:
            shuffler.take(block)
        handed.append(shuffler.close())
    assert handed[0] == handed[1]
    release = handed[0].release
    assert release is not None
    words = release.words()
    assert words is not None
    assert (np.diff(words.astype(object)) >= 0).all()
    whole = devices.answer(asked, 0, 3000)
    ask = Ask(query=asked, first=0, stop=3000)
    layout = plan_layout(devices=3000, workers=1, devices_per_actor=None)
    statistic, _ = read_shuffled(ask, handed[0], EVERY, layout)
    assert worlds.as_numbers(statistic) == worlds.as_numbers(aggregate(asked, whole))
    twin = replace(release, questions=np.sort(words)[::-1].astype("<u8").tobytes())
    assert worlds.as_numbers(aggregate(asked, twin)) != worlds.as_numbers(statistic)
    with pytest.raises(InputError, match="lacks the questions"):
        Shuffler(EVERY.stamped(asked), EVERY).take(replace(whole, questions=None))


def test_one_bit_has_two_levels_several_are_any_randomizer_and_the_inverse_holds() -> None:
    """100,000 devices, local epsilon 4, delta 1e-6."""
    bit = amplified("maxsense", 100_000, epsilon=4, own_questions=True)
    assert bit.bound == "two levels"
    assert bit.epsilon == pytest.approx(0.1182, abs=1e-4)
    several = amplified("multi-maxsense", 100_000, epsilon=4, settings={"questions": 4}, own_questions=True)
    assert several.bound == "any randomizer"
    assert several.epsilon == pytest.approx(0.1698, abs=2e-4)
    inverse = local_epsilon("sign", 100_000, epsilon=1, own_questions=True)
    assert inverse.epsilon_local == pytest.approx(7.761, abs=0.002)
    with complains("a channel has no questions"):
        amplified(matrix_channel([[0.6, 0.4], [0.4, 0.6]], None), 1000, own_questions=True)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["run", "--design", "grr", "--own-questions"], ["own_questions is True", "grr", "leave own questions out"]),
        (["run", "--design", "set", "--own-questions", "--trust", "shuffled"], ["own_questions is True", "set"]),
        (["run", "--design", "full-reveal", "--own-questions"], ["own_questions is True", "full-reveal"]),
        (["run", "--design", "maxsense", "--trust", "shuffled"], ["address", "own-questions"]),
        (["run", "--design", "sign", "--own-questions", "--malicious", "0.01"], ["malicious is 0.01", "leave one out"]),
        (["amplify", "grr", "--own-questions"], ["design grr", "leave own questions out"]),
        (["amplify", "any", "--own-questions"], ["the same on all devices", "leave it out"]),
        (["amplify", "maxsense"], ["maxsense", "address", "own-questions"]),
    ],
)
def test_what_cannot_draw_its_question_ends_with_one_line(
    arguments: list[str], parts: list[str], blindrec: Command
) -> None:
    line = refused(blindrec, *arguments)
    assert all(part in line for part in parts), line
