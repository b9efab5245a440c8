"""Scenarios from flags and TOML: flags win, and whatever is wrong is reported in one line."""

import re
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.fields import FieldInfo
from runs import Command, complains, refused, small

import blindrec
from coordinator.protocol.decoding.line import Curator
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import POSTERIOR
from coordinator.protocol.mechanisms import mechanisms as registered_mechanisms
from coordinator.protocol.mechanisms.toys import ItemQuery
from coordinator.server.anchor.policy import AnchorPolicy
from coordinator.server.rounds.group_policies import ChoiceAndPairs, Groups, UntilLearned
from coordinator.server.rounds.learner import SumLearner
from coordinator.server.rounds.policies import OneRound
from scenarios.config.resolve import load_scenario, resolve
from scenarios.config.scenario import Scenario
from scenarios.studies.scrutiny.mechanism_under_test import alternatives

FULL = """
design = "maxsense"
decoder = "paper"
items = 60
rated = 6
users = 700
clusters = 3
like = [[0.9, 0.5, 0.1], [0.2, 0.4, 0.8]]
class_shares = [0.25, 0.75]
cluster_shares = [0.5, 0.3, 0.2]
theta = 2.5
epsilon = 0.1
seed = 7
dropout = 0.1
straggler_share = 0.2
straggler_delay = 30
deadline = 20
malicious = 0.02
attack = "promote:5"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "scenario.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_flags_say_the_same_as_a_file(tmp_path: Path) -> None:
    lists = {"like": "0.9,0.5,0.1;0.2,0.4,0.8", "class_shares": "0.25,0.75", "cluster_shares": "0.5,0.3,0.2"}
    flags = {**tomllib.loads(FULL), **lists, "epsilon": "0.1", "ratings": None}
    del flags["design"]
    assert load_scenario(None, flags) == load_scenario(written(tmp_path, FULL), {})


def test_defaults_are_those_that_the_help_names() -> None:
    full = Scenario().complete()
    assert (full.items, full.rated, full.users, full.clusters) == (200, 20, 1_000_000, 2)
    assert (full.epsilon, full.value("theta"), full.seed, full.like) == (Fraction(1), 1.0, 0, ((0.9, 0.1),))
    assert Scenario(items=8).complete().rated == 8
    assert Scenario(like=((0.9, 0.5, 0.1),)).complete().clusters == 3


def test_a_single_row_needs_no_second_bracket(tmp_path: Path) -> None:
    assert load_scenario(written(tmp_path, "like = [0.8, 0.3]"), {}).like == ((0.8, 0.3),)


@pytest.mark.parametrize(("text", "questions"), [("4", 4), ('"4"', 4), ('"auto"', "auto"), ('"ceil"', "ceil")])
def test_questions_are_a_number_or_a_word_and_share_epsilon(text: str, questions: int | str, tmp_path: Path) -> None:
    found = load_scenario(written(tmp_path, f'design = "multi-maxsense"\nquestions = {text}\nepsilon = 60'), {})
    assert found.value("questions") == questions
    assert found.epsilon == Fraction(60)


def test_a_design_in_a_flag_brings_its_defaults_and_leaves_what_the_file_says(tmp_path: Path) -> None:
    path = written(tmp_path, "items = 60\nrated = 6")
    found = load_scenario(path, {"design": "item-query"})
    assert (found.decoder, found.epsilon, found.items) == ("shares", None, 60)
    with pytest.raises(InputError, match="not private"):
        load_scenario(written(tmp_path, "epsilon = 1"), {"design": "item-query"})


@pytest.mark.parametrize("design", ["multi-maxsense", "item-query", "full-reveal", "curator-items"])
def test_what_was_filled_in_is_a_scenario_again(design: str) -> None:
    full = Scenario(design=design).complete()
    values = {name: value for name, value in full.model_dump().items() if value is not None}
    again = Scenario.model_validate({"epsilon": "inf" if full.epsilon is None else full.epsilon, **values})
    assert again.complete() == full


@pytest.mark.parametrize("text", ["inf", '"inf"', "+inf"])
def test_infinite_epsilon_means_no_noise(text: str, tmp_path: Path) -> None:
    assert load_scenario(written(tmp_path, f"epsilon = {text}"), {}).epsilon is None


@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_epsilon_is_exact(upper: int, lower: int) -> None:
    exact = Fraction(upper, lower)
    if exact <= 30:
        assert load_scenario(None, {"epsilon": f"{upper}/{lower}"}).epsilon == exact


MULTI: dict[str, Any] = {"design": "multi-maxsense", "items": 40, "rated": 5}
WRONG: dict[str, tuple[dict[str, Any], list[str]]] = {
    "one item": ({"items": 1}, ["items", "1", "2"]),
    "items of another world": ({"items": 10**9}, ["items", "1000000000"]),
    "half an item": ({"items": 10.5}, ["items", "10.5"]),
    "a single name of a column": ({"columns": ["u"]}, ["columns", "['u']"]),
    "a row of likes that is none": ({"like": [[0.9, 0.1], 0.5]}, ["like", "0.5"]),
    "epsilon is a truth": ({"epsilon": True}, ["epsilon", "True"]),
    "no user": ({"users": 0}, ["users", "0", "1"]),
    "nothing rated": ({"rated": 0}, ["rated", "0"]),
    "one cluster": ({"clusters": 1}, ["clusters", "1", "2"]),
    "one column": ({"like": "0.9"}, ["like", "1", "2"]),
    "no column": ({"like": [], "clusters": 2}, ["like", "0"]),
    "a number too few": ({"like": "0.9,0.1;0.4"}, ["like", "2, 1"]),
    "an open end": ({"like": "0.9,0.1;"}, ["like", "''"]),
    "a probability that is none": ({"like": "0.9,nan"}, ["like", "nan"]),
    "shares nearly 1 in all": ({"cluster_shares": "0.5,0.499999"}, ["cluster_shares", "sum to 1"]),
    "a share below 0": ({"cluster_shares": "-0.5,1"}, ["cluster_shares", "-0.5"]),
    "a share too many": ({"cluster_shares": "0.5,0.25,0.25"}, ["cluster_shares", "3", "2"]),
    "shares without classes": ({"class_shares": "0.5,0.5"}, ["class_shares", "2", "1"]),
    "no list of shares": ({"class_shares": "half"}, ["class_shares", "'half'"]),
    "theta 0": ({"theta": 0}, ["theta", "0"]),
    "theta nan": ({"theta": float("nan")}, ["theta", "nan"]),
    "theta inf": ({"theta": float("inf")}, ["theta", "inf"]),
    "epsilon 0": ({"epsilon": "0"}, ["epsilon", "0", "above 0"]),
    "epsilon below 0": ({"epsilon": "-1"}, ["epsilon", "-1", "above 0"]),
    "epsilon nan": ({"epsilon": "nan"}, ["epsilon", "nan", "above 0"]),
    "epsilon above a float": ({"epsilon": "1e400"}, ["epsilon", "30"]),
    "seed below 0": ({"seed": -1}, ["seed", "-1"]),
    "seed too long": ({"seed": 10**65}, ["seed", "1" + "0" * 65]),
    "a list of designs": ({"design": ["maxsense"]}, ["design", "maxsense"]),
    "a number of a design": ({"design": 3}, ["design", "3"]),
    "questions above 1/p of a theta": ({**MULTI, "theta": 2.5, "questions": 3}, ["questions is 3", "1/p", "2"]),
    "no question": ({**MULTI, "questions": 0}, ["questions is 0", "1"]),
    "half a question": ({**MULTI, "questions": 2.5}, ["questions", "2.5", "auto"]),
    "questions in other words": ({**MULTI, "questions": "many"}, ["questions", "'many'", "auto"]),
    "no ceiling of infinity": ({**MULTI, "epsilon": "inf"}, ["questions", "inf"]),
    "a question above the coins": ({**MULTI, "questions": 2, "epsilon": "61"}, ["epsilon", "30.5", "30"]),
    "all questions above the coins": ({**MULTI, "epsilon": "151"}, ["epsilon", "30"]),
    "multi-maxsense senses too many": ({**MULTI, "theta": 5.5}, ["theta", "5.5", "5"]),
    "too many items in a curator's pairs": ({"design": "curator-pairs", "items": 5001}, ["items is 5001", "5000"]),
    "one rated item in a pair": ({"design": "pairwise", "rated_items": "public", "rated": 1}, ["rated is 1", "2"]),
    "one rated item in a curator's pair": ({"design": "curator-pairs", "rated": 1}, ["rated is 1", "2"]),
    "items public in part": ({"design": "pairwise", "rated_items": "some"}, ["rated_items", "'some'", "'public'"]),
    "as many clusters as items in a curator's pairs": (
        {"design": "curator-pairs", "items": 5, "rated": 2, "clusters": 5},
        ["clusters is 5", "5"],
    ),
    "a curator's tiny epsilon": ({"design": "curator-items", "epsilon": "1e-300"}, ["epsilon", "1e-300"]),
    "a curator's tiny epsilon of pairs": ({"design": "curator-pairs", "epsilon": "1e-11"}, ["epsilon", "1e-11"]),
    "no answer an item": ({"design": "item-query", "answers_per_item": 0}, ["answers_per_item is 0", "1"]),
    "nobody reveals": ({"design": "full-reveal", "reveal_share": 0}, ["reveal_share is 0", "greater than 0"]),
    "more than everybody reveals": ({"design": "full-reveal", "reveal_share": 1.5}, ["reveal_share is 1.5", "1"]),
    "a share that is none": ({"design": "full-reveal", "reveal_share": float("nan")}, ["reveal_share", "nan"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told_in_one_line_with_name_and_value(case: str) -> None:
    values, words = WRONG[case]
    with pytest.raises(InputError) as raised:
        load_scenario(None, values)
    line = str(raised.value)
    assert "\n" not in line
    assert line.startswith(words[0]) or f"key '{words[0]}'" in line
    assert all(word in line for word in words), line


REFUSED: dict[str, dict[str, Any]] = {
    "decoder is 'oracle'; choose one of centred, paper, posterior for maxsense": {"decoder": "oracle"},
    "epsilon is 1, but item-query is not private; say inf or leave it out": {"design": "item-query", "epsilon": 1},
    "policy is 'eliminate'; choose one of one-round, fixed for grr": {"design": "grr", "policy": "eliminate"},
    "rounds is 3, which is about policy fixed, not one-round; leave it out": {"rounds": 3},
    "epsilon is 1e-10; give at least 1e-09": {"epsilon": "1e-10"},
    "questions is 21; it must lie between 1 and 1/p": {"design": "multi-maxsense", "questions": 21},
}
"""What mechanisms cannot do, and values that ask for it."""


@pytest.mark.parametrize("words", REFUSED)
@pytest.mark.usefixtures("nobody_asks")
def test_what_a_mechanism_cannot_do_is_refused_where_a_run_begins(words: str) -> None:
    """A scenario holds values and knows no mechanism; whatever begins a run refuses it, and asks nobody."""
    scenario = Scenario.model_validate({"users": 100, **REFUSED[words]})
    for begin in (resolve, blindrec.run):
        with pytest.raises(InputError, match=re.escape(words)):
            begin(scenario)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'design = "\xff"')
    for path in (tmp_path / "none.toml", tmp_path, tmp_path / "latin.toml"):
        with pytest.raises(InputError, match=f"scenario file {path} "):
            load_scenario(path, {})


SPY = """
from pathlib import Path
Path("imported").touch()
def policy(setting): raise ValueError("it was made")
"""


@pytest.mark.parametrize(
    ("command", "text", "key"),
    [
        ("run", 'policy = "builtins:exec"', "policy"),
        ("run", 'policy = "spy:policy"', "policy"),
        ("run", 'design = "spy:policy"', "design"),
        ("run", 'helpers = ["spy"]', "helpers"),
        ("sweep", 'base = { policy = "spy:policy" }', "policy"),
        ("sweep", '[[grid]]\ndesign = ["maxsense", "spy:policy"]', "design"),
        ("sweep", 'sweep = "results"\nexperiment = "run"\n[[grid]]\npolicy = ["spy:policy"]', "policy"),
    ],
)
@pytest.mark.usefixtures("importable")
def test_files_that_name_code(command: str, text: str, key: str, blindrec: Command) -> None:
    """A file that names code is a program: it is not imported unless somebody says so."""
    Path("spy.py").write_text(SPY, encoding="utf-8")
    Path("given.toml").write_text(text, encoding="utf-8")
    begins = ["run", "given.toml"] if command == "run" else ["sweep", "given.toml", "--out", "swept"]
    line = refused(blindrec, *begins, "--backend", "inprocess")
    assert f"names code, {key} = " in line
    assert "--allow-code" in line
    assert not Path("imported").exists()


@pytest.mark.usefixtures("importable")
def test_code_that_somebody_allows_or_names(blindrec: Command) -> None:
    Path("spy.py").write_text(SPY, encoding="utf-8")
    Path("given.toml").write_text('policy = "spy:policy"\nitems = 12\nrated = 4\nusers = 100\n', encoding="utf-8")
    here = ["--backend", "inprocess"]
    assert blindrec("run", "given.toml", "--policy", "one-round", *here).code == 0
    assert not Path("imported").exists()
    assert "it was made" in refused(blindrec, "run", "given.toml", "--allow-code", *here)
    assert Path("imported").exists()
    assert "it was made" in refused(blindrec, "run", "given.toml", "--policy", "spy:policy", *here)


RUN = ("run", "--items", 20, "--rated", 5, "--backend", "inprocess", "--json", "-", "--seed", 7)


@pytest.mark.parametrize("written", ["2e3", "2E+3", "2,000", "2.0e3", "+2000"])
def test_a_whole_number_is_the_same_however_it_is_written(written: str, blindrec: Command) -> None:
    assert blindrec(*RUN, "--users", written).result["users"] == 2000


def test_a_number_with_a_part_behind_the_point_keeps_it(blindrec: Command) -> None:
    told = blindrec(*RUN, "--users", 100, "--deadline", "1,000.5", "--straggler-delay", "1e1")
    assert (told.result["deadline"], told.result["straggler_delay"]) == (1000.5, 10.0)


def test_lists_are_not_taken_for_numbers(blindrec: Command) -> None:
    told = blindrec("sweep", "adaptive", "--items", "100,300", "--seeds", 0, "--out", "never", "--backend", "inprocess")
    assert told.err.strip() == "blindrec: seeds is 0: input should be greater than or equal to 1"


def test_the_version_is_told(blindrec: Command) -> None:
    assert blindrec("--version").out.startswith("blindrec 0.")


def test_a_shell_can_complete_commands(blindrec: Command) -> None:
    assert "--install-completion" in blindrec("--help").out


# Designs by name: what each fills in, builds, promises and asks devices, and what settings it does not know.


NAMES = list(registered_mechanisms())
OPEN = ["item-query", "full-reveal"]
CURATOR = ["curator-items", "curator-pairs"]


def filled(**changes: Any) -> Scenario:
    return resolve(small(**changes)).scenario


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_enough(name: str) -> None:
    scenario = filled(design=name)
    assert scenario.decoder == registered_mechanisms()[name].decoders[0]
    assert scenario.epsilon == (None if name in OPEN else 1)
    assert resolve(scenario).design.items == 40
    assert load_scenario(None, {"design": name}) == Scenario(design=name)


@pytest.mark.parametrize("name", OPEN)
def test_infinite_may_be_said_of_what_is_not_private(name: str) -> None:
    assert small(design=name, epsilon="inf") == small(design=name)


@pytest.mark.parametrize(
    ("epsilon", "questions"), [("1/2", 1), ("1", 1), ("1.000001", 2), ("3", 3), ("4.5", 5), ("5", 5), ("7", 5)]
)
def test_the_papers_number_of_questions_is_epsilon_rounded_up_at_most_1_over_p(epsilon: str, questions: int) -> None:
    query = resolve(filled(design="multi-maxsense", epsilon=epsilon)).design.query(
        round_number=0, public_seed=bytes(16), epsilon=None
    )
    assert (query.questions, query.parameters["set_size"]) == (questions, 8)


def curator_of(scenario: Scenario) -> Curator | None:
    learner = resolve(scenario).learner
    return learner.how.curator if isinstance(learner, SumLearner) else None


@pytest.mark.parametrize("name", NAMES)
def test_devices_privatize_unless_a_curator_is_trusted(name: str) -> None:
    """A design with an epsilon reaches devices with it, or the curator with it; never neither, never both."""
    scenario = filled(design=name)
    curator, policy = curator_of(scenario), resolve(scenario).policy
    if name in CURATOR:
        assert resolve(scenario).account.budget is None
        assert curator is not None
        assert (curator.epsilon, curator.rated, len(curator.seed)) == (Fraction(1), 5, 16)
        assert curator_of(filled(design=name, seed=1)) != curator
    else:
        assert curator is None
        assert resolve(scenario).account.budget == scenario.epsilon
    if name == "item-query":
        assert isinstance(policy, UntilLearned)
        assert policy.design == ItemQuery(answers_per_item=1).design(resolve(scenario).world)
    elif name == "anchor":
        assert isinstance(policy, AnchorPolicy)
        assert policy.setting.epsilon == resolve(scenario).account.budget
    else:
        assert isinstance(policy, Groups | ChoiceAndPairs | OneRound)
        assert type(policy) is {"pairs": Groups, "pair-totals": ChoiceAndPairs}.get(name, OneRound)
        assert policy.epsilon == resolve(scenario).account.budget


def test_guarantees_say_what_is_private_towards_whom() -> None:
    local = resolve(filled()).account.guarantee.text
    assert "local" in local
    assert (
        resolve(filled(design="multi-maxsense")).account.guarantee.text
        == resolve(filled(design="pairwise")).account.guarantee.text
        == local
    )
    public = resolve(filled(design="pairwise", rated_items="public")).account.guarantee.text
    assert "which items it rated is public" in public
    assert all(resolve(filled(design=name)).account.guarantee.text.startswith("none") for name in OPEN)
    assert not any("local" in resolve(filled(design=name)).account.guarantee.text for name in CURATOR)
    for name in ("maxsense", "sign", "pairwise", "multi-maxsense", *CURATOR):
        inf = filled(design=name, epsilon="inf", **({"questions": 1} if "multi" in name else {}))
        assert resolve(inf).account.guarantee.text.startswith("none")


def another(field: FieldInfo) -> Any:
    """A value of a setting that is not its default: another name that its type has, or another number."""
    named = [name for name in alternatives(field.annotation) if name not in (None, field.default)]
    return named[0] if named else 0.5 if field.default is None else 2 * field.default or type(field.default)(0.25) or 2


SETTINGS: dict[str, tuple[Any, set[str]]] = {
    name: (
        another(field),
        {other.name for other in registered_mechanisms().values() if name in other.settings.model_fields},
    )
    for half in registered_mechanisms().values()
    for name, field in half.settings.model_fields.items()
} | {
    "confidence": (0.9, {name for name, half in registered_mechanisms().items() if POSTERIOR in half.decoders}),
    "filter_bits": (400, {"rappor"}),  # of 200 items, fewer bits than 201 say too little
}


@pytest.mark.parametrize("design", NAMES)
def test_settings_and_decoders_of_one_design_are_refused_by_the_others(design: str) -> None:
    for name, (value, owners) in SETTINGS.items():
        if design in owners:
            assert load_scenario(None, {"design": design, name: value}).value(name) == value
            continue
        with complains(f"{name} is ", str(value), design, *owners):
            load_scenario(None, {"design": design, name: value})
    decoders = registered_mechanisms()[design].decoders
    for decoder in ("centred", "paper", "posterior", "shares", "totals", "best"):
        if decoder in decoders:
            assert load_scenario(None, {"design": design, "decoder": decoder}).decoder == decoder
            continue
        with complains(f"decoder is '{decoder}'", design, *decoders):
            load_scenario(None, {"design": design, "decoder": decoder})


@pytest.mark.parametrize("design", NAMES)
def test_nobody_rates_more_items_than_there_are(design: str) -> None:
    """Compiled code checks no bounds: devices of such a world would read and write memory that is not theirs."""
    with complains("rated is 31", "30"):
        load_scenario(None, {"design": design, "items": 30, "rated": 31})
