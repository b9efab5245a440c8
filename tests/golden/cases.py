"""The command lines whose results are golden: every design, decoder, policy, mechanism, recommender, kind of sweep."""

from dataclasses import dataclass
from itertools import product

RUN = "run --items 20 --rated 6 --users 2000 "
LONG = "run --items 16 --rated 6 --users 12000 "  # Users enough for policies that adapt to decide something
PAIRS = "run --design pairwise --items 12 --rated 8 --users 3000 --like 0.9,0.1;0.2,0.8 "
FILE = "run --ratings ratings.csv "
TIERS = (
    "two-tier --planted 120,40,3000 --public 60 --private 30 --batch 15 --iterations 4 --holdout 3 "
    "--rank 2 --regularisation 1 --mechanism "
)
VALIDATED = "two-tier --planted 90,30,1500 --public 60 --private 20 --iterations 3 --holdout 3 --mechanism "
FILE_TIERS = (
    "two-tier --ratings ratings.csv --public 25% --private 20 --holdout 1 --iterations 3 --rank 2 --regularisation 1 "
)
ONLINE = "online --rounds 60 --voters 24 --recommender "
SWEPT = ("none", "pmd", "pmc", "laplace")  # Mechanisms of the two-tier sweep
ADVERSARY = "adversary --repeat 2 --rounds 40 --voters 16 "
WIDE = "wide.csv --features features.csv "  # Items enough for lists of ten
CROWD = "crowd.csv --features features.csv "  # And people enough for a forecast
OF_POPULARITY = "--worth 0.95 --of popularity "
COMPARE = "compare " + WIDE + OF_POPULARITY


@dataclass(frozen=True, slots=True)
class Case:
    """A command line as a shell splits it, and whether it is run on Ray, too: where no other test does that."""

    command: str
    on_ray: bool = False


def _designs() -> dict[str, Case]:
    return {
        "maxsense": Case(RUN),
        "maxsense, paper's decoder": Case(RUN + "--decoder paper"),
        "maxsense, posterior": Case(RUN + "--decoder posterior"),
        "maxsense, epsilon inf": Case(RUN + "--epsilon inf"),
        "maxsense, theta 2, epsilon 7/3": Case(RUN + "--theta 2 --epsilon 7/3"),
        "maxsense, three clusters": Case(RUN + "--like 0.9,0.5,0.1 --cluster-shares 0.5,0.3,0.2 --epsilon 4"),
        "maxsense, two classes": Case(RUN + "--like 0.9,0.1;0.3,0.6 --class-shares 0.7,0.3"),
        "maxsense, dropouts and stragglers": Case(
            RUN + "--dropout 0.2 --straggler-share 0.3 --deadline 30", on_ray=True
        ),
        "maxsense, two seeds": Case(RUN + "--repeat 2 --seed 5"),
        "sign": Case(RUN + "--design sign"),
        "sign, epsilon inf": Case(RUN + "--design sign --epsilon inf"),
        "sign, 4 vectors": Case(RUN + "--design sign --vectors 4 --epsilon 3"),
        "sign, 64 vectors": Case(RUN + "--design sign --vectors 64 --epsilon 1/2"),
        "multi-maxsense, ceil": Case(RUN + "--design multi-maxsense --epsilon 2.5"),
        "multi-maxsense, auto": Case(RUN + "--design multi-maxsense --questions auto --epsilon 4"),
        "multi-maxsense, 2, paper's decoder": Case(RUN + "--design multi-maxsense --questions 2 --decoder paper"),
        "multi-maxsense, epsilon inf": Case(RUN + "--design multi-maxsense --questions 3 --epsilon inf"),
        "anchor": Case(LONG + "--design anchor --like 0.9,0.1;0.1,0.9 --epsilon 3", on_ray=True),
        "anchor, too few": Case(RUN + "--design anchor --pool-items 8 --like 0.9,0.1;0.1,0.9"),
        "item-query": Case(RUN + "--design item-query"),
        "item-query, 3 answers an item": Case(RUN + "--design item-query --answers-per-item 3"),
        "full-reveal": Case(RUN + "--design full-reveal"),
        "full-reveal, share 0.5": Case(RUN + "--design full-reveal --reveal-share 0.5"),
        **{
            f"{name}, epsilon {epsilon}": Case(RUN + f"--design {name} --epsilon {epsilon}")
            for name, epsilon in product(("curator-items", "curator-pairs"), ("2", "inf"))
        },
        **{
            f"{name}, add-remove": Case(RUN + f"--design {name} --epsilon 2 --neighbours add-remove")
            for name in ("curator-items", "curator-pairs")
        },
        "totals": Case(RUN + "--design totals", on_ray=True),
        "totals, devices' noise, delta 0": Case(
            RUN + "--design totals --noise devices --delta 0 --epsilon 3 --dropout 0.05 --neighbours add-remove"
        ),
        "totals, three periods, one of them withheld": Case(
            RUN + "--design totals --periods 3 --schedule front --drift 0.1 --epsilon 3 --noise devices --dropout 0.1",
            on_ray=True,
        ),
        "totals, three periods, counted once": Case(
            RUN + "--design totals --periods 3 --schedule counter --drift 0.1 --epsilon 3 --most-likes 3 --dropout 0.1",
            on_ray=True,
        ),
        "totals, epsilon inf": Case(RUN + "--design totals --epsilon inf --most-likes 2"),
        "pair-totals": Case(RUN + "--design pair-totals --epsilon 3 --pair-items 12", on_ray=True),
        "pair-totals, devices' noise, delta 0": Case(
            RUN + "--design pair-totals --noise devices --delta 0 --dropout 0.05 --pair-items 8 --pair-likes 2"
        ),
        "shuffled, set": Case(RUN + "--design set --trust shuffled --dropout 0.05", on_ray=True),
        "shuffled, pairs, told short": Case(
            RUN + "--design pairs --trust shuffled --epsilon 2 --dropout 0.2 --short-rounds tell"
        ),
        "shuffled, sign, eliminate": Case(
            RUN + "--design sign --policy eliminate --trust shuffled --own-questions --smallest-round 500 --epsilon 2"
        ),
    }


def _oracles() -> dict[str, Case]:
    adapts = LONG + "--policy eliminate --epsilon 3 --design "
    return {
        **{name: Case(RUN + f"--design {name} --epsilon 3") for name in ("grr", "olh", "hadamard", "rappor")},
        "grr, epsilon inf": Case(RUN + "--design grr --epsilon inf"),
        "olh, told rated": Case(RUN + "--design olh --told rated --epsilon 2"),
        "hadamard, 1 row": Case(RUN + "--design hadamard --rows 1"),
        "grr, eliminate, told rated": Case(adapts + "grr --told rated"),
        "olh, eliminate, told rated": Case(adapts + "olh --told rated"),
        "hadamard, item-by-item, told rated": Case(
            LONG + "--policy item-by-item --epsilon 3 --design hadamard --told rated"
        ),
        "file, hadamard": Case(FILE + "--design hadamard --epsilon 3 --users 1000"),
    }


def _subsets() -> dict[str, Case]:
    return {
        **{name: Case(RUN + f"--design {name} --epsilon 3") for name in ("oue", "subset", "set")},
        "oue, told rated": Case(RUN + "--design oue --told rated --epsilon 2"),
        "subset, epsilon inf": Case(RUN + "--design subset --epsilon inf"),
        "subset, 3 chosen, told rated": Case(RUN + "--design subset --chosen 3 --told rated --epsilon 2"),
        "set, 2 kept, 4 chosen": Case(RUN + "--design set --padded 2 --chosen 4"),
        "set, three periods": Case(RUN + "--design set --periods 3 --schedule split --drift 0.1 --epsilon 3"),
        "set, three periods in front": Case(
            RUN + "--design set --periods 3 --schedule front --drift 0.1 --epsilon 3", on_ray=True
        ),
        "set, three periods behind a shuffler": Case(
            RUN + "--design set --periods 3 --schedule front --drift 0.1 --trust shuffled --epsilon 3"
        ),
        "oue, fixed": Case(RUN + "--design oue --policy fixed --dropout 0.2"),
        "subset, eliminate, told rated": Case(LONG + "--epsilon 3 --policy eliminate --design subset --told rated"),
        "pairs": Case(RUN + "--design pairs --epsilon 3"),
        "pairs, epsilon inf": Case(RUN + "--design pairs --epsilon inf --pair-items 6"),
        "pairs, 3 kept, 2 chosen": Case(
            RUN + "--design pairs --pair-items 8 --pair-likes 3 --chosen 2 --first-group 0.3 --dropout 0.1"
        ),
        "file, pairs": Case(FILE + "--design pairs --epsilon 3 --users 1000 --pair-items 9", on_ray=True),
        "file, set": Case(FILE + "--design set --epsilon 3 --users 1000"),
    }


def _pairs() -> dict[str, Case]:
    asked = product(("rated-equal", "equal", "positive"), ("private", "public"), ("centred", "paper"))
    return {
        f"pairwise, {agreement}, {rated}, {decoder}": Case(
            PAIRS + f"--agreement {agreement} --rated-items {rated} --decoder {decoder}"
        )
        for agreement, rated, decoder in asked
    } | {
        "pairwise, epsilon inf": Case(PAIRS + "--epsilon inf"),
        "pairwise, fixed": Case(PAIRS + "--policy fixed --rounds 2 --answers-per-device 2"),
    }


def _policies() -> dict[str, Case]:
    sign, adapts = LONG + "--design sign ", "--policy eliminate "
    return {
        "maxsense, fixed": Case(RUN + "--policy fixed --rounds 3"),
        "maxsense, fixed, two answers a device": Case(RUN + "--policy fixed --rounds 4 --answers-per-device 2"),
        "sign, fixed": Case(RUN + "--design sign --policy fixed"),
        "multi-maxsense, fixed": Case(RUN + "--design multi-maxsense --epsilon 2 --policy fixed"),
        "maxsense, eliminate": Case(LONG + adapts + "--epsilon 3"),
        "maxsense, item-by-item": Case(LONG + "--policy item-by-item --epsilon 3"),
        "sign, eliminate, centred": Case(sign + adapts),
        "sign, eliminate, plain": Case(sign + adapts + "--signs plain"),
        "sign, eliminate, 4 vectors": Case(sign + adapts + "--vectors 4 --signs plain --epsilon 2"),
        "sign, eliminate, two answers a device": Case(sign + adapts + "--answers-per-device 2 --confidence 0.9"),
        "sign, eliminate, three clusters": Case(sign + adapts + "--like 0.9,0.5,0.1 --epsilon 3"),
        "sign, item-by-item": Case(sign + "--policy item-by-item"),
        "sign, one's own policy": Case(sign + "--policy golden_policy:Doubtful --epsilon 2", on_ray=True),
        "maxsense, one's own policy": Case(
            LONG + "--decoder posterior --policy golden_policy:Doubtful --most-rounds 5"
        ),
    }


def _files() -> dict[str, Case]:
    return {
        "file, maxsense": Case(FILE + "--users 3000 --epsilon 4", on_ray=True),
        "file, likes from 4, two held out": Case(FILE + "--like-from 4 --held-out 2 --rated 5 --users 1000"),
        "file, sign, eliminate": Case(FILE + "--design sign --policy eliminate --users 6000 --epsilon 4"),
        "file, multi-maxsense": Case(FILE + "--design multi-maxsense --epsilon 3 --users 1000"),
        "file, pairwise, public": Case(FILE + "--design pairwise --rated-items public --users 1000"),
        "file, pairwise, private": Case(FILE + "--design pairwise --agreement positive --users 1000"),
        "file, item-query": Case(FILE + "--design item-query --users 1000"),
        "file, curator-items": Case(FILE + "--design curator-items"),
        "file, curator-pairs": Case(FILE + "--design curator-pairs --epsilon inf"),
    }


def _liars() -> dict[str, Case]:
    adapts = LONG + "--design sign --policy eliminate --malicious 0.02 --attack "
    return {
        "liars, maxsense": Case(RUN + "--malicious 0.1 --attack promote:3", on_ray=True),
        "liars, set, input": Case(RUN + "--design set --epsilon 3 --malicious 0.2 --attack input:2"),
        "liars, sign, eliminate": Case(adapts + "untargeted --pool-size 8 --assume-malicious 0.01"),
        "liars, file, input": Case(FILE + "--design oue --users 1000 --epsilon 3 --malicious 0.1 --attack input:2"),
    }


def _tiers() -> dict[str, Case]:
    epsilon = {"pmc-rr": " --epsilon 2", "laplace": " --epsilon 5", "sslp": " --epsilon 5", "privunit": " --epsilon 5"}
    names = ("full", "none", "pmd", "pmc", "pmc-rr", "laplace", "sslp", "privunit", "exact")
    return {
        f"two-tier, {name}": Case(TIERS + name + epsilon.get(name, ""), on_ray=name == "privunit") for name in names
    } | {
        "two-tier, weighted, prox": Case(TIERS + "pmc --norm weighted --m-step prox --weight 0.3 --seed 2"),
        "two-tier, random users": Case(TIERS + "pmd --public-by random --private-by random --batch-iterations 1"),
        "two-tier, on a scale": Case(FILE_TIERS + "--mechanism pmd --scale 1,2.2,3.7,5 --round-ratings"),
        "two-tier, validated": Case(VALIDATED + "pmc"),
        "two-tier, validated weight": Case(VALIDATED + "laplace --epsilon 5 --norm weighted"),
        "two-tier, file": Case(FILE_TIERS),
    }


def _online() -> dict[str, Case]:
    names = (
        "p-rec p-rec-sim p-rec-lean p-rec-sharp p-rec-wide p-rec-literal plurality multiplicative-weights dsybil naive"
    )
    return {f"online, {name}": Case(ONLINE + name) for name in (*names.split(), "random")} | {
        "online, four objects": Case(ONLINE + "p-rec --objects 4 --diversity 3 --radius 2 --peers 6"),
        "online, clients and a budget": Case(ONLINE + "p-rec-lean --clients 3 --budget 600 --peers 5", on_ray=True),
        "online, naive, epsilon 3": Case(ONLINE + "naive --epsilon 3 --repeat 2"),
        "online, file": Case("online --ratings ratings.csv --clients 3 --rounds 4 --recommender p-rec-lean"),
        "online, world": Case("online --world world.toml --recommender p-rec"),
        "adversary, theorem-6": Case(ADVERSARY + "theorem-6 --radius 6"),
        "adversary, slow-halving": Case(ADVERSARY + "slow-halving"),
        "adversary, claim-1": Case(ADVERSARY + "claim-1"),
        "adversary, theorem-15": Case(ADVERSARY + "theorem-15"),
    }


def _sweeps() -> dict[str, Case]:
    sweep = "sweep {} --out swept --seeds 2 "
    adaptive = sweep.format("adaptive") + "--rated 6 --epsilon 3 --vectors 4 "
    online = sweep.format("online") + "--rounds 40 --voters 16 "
    return {
        "sweep, users": Case("sweep sample-complexity grid.toml --out swept --seeds 3"),
        "sweep, adaptive": Case(adaptive + "--items 10,14"),
        "sweep, adaptive, moments": Case(adaptive + "--items 20 --statistic moments"),
        "sweep, online": Case(online + "--axes rounds=20,40,ratio=8,radius=2,epsilon-rounds=20"),
        "sweep, online, file": Case(  # not on Ray: its tasks read the file by a path relative to where Ray was started
            "sweep online --ratings ratings.csv --clients 3 --rounds 4 --seeds 1 --out swept"
        ),
        "sweep, two-tier": Case(
            "sweep two-tier --planted 120,40,3000 --out swept --seeds 1 --figures 2,attack --public 60 --private 20 "
            f"--every 10 --holdout 3 --rank 2 --regularisation 1 --mechanisms {','.join(SWEPT)}:5",
            on_ray=True,
        ),
    }


def _theory() -> dict[str, Case]:
    return {
        "plan": Case("plan --items 24 --rated 6 --epsilon 2"),
        "bounds": Case("bounds --items 1000 --rated 30"),
        "bounds, ours": Case("bounds --items 1000 --rated 30 --epsilon 2 --mistakes 20 --failure 0.1 --ours"),
        "data": Case("data ratings.csv"),
        "data, block model": Case("data ratings.csv --block-model"),
        "data, items enough for lists": Case("data " + WIDE),
        "data, people enough for a forecast": Case("data " + CROWD),
        "plan, ratings": Case("plan --ratings ratings.csv --block-model --epsilon 2"),
        "plan, ratings, worth": Case(f"plan --ratings {CROWD}--epsilon 4 --like-from 4 --backend inprocess"),
    }


def _comparisons() -> dict[str, Case]:
    rows = "popularity,EASE,pairs with EASE,set,ones"
    others = "PMC,PMD,directions,popularity with set,lifts with set,p-rec-lean,trace norm,sign,MaxSense"
    return {
        "compare, ladder, by": Case(
            COMPARE + f"--trust-models ladder --epsilon 4 --scale 10 --mechanisms '{rows}' --by rarity,region "
            "--people-file people.csv"
        ),
        "compare, every rung": Case(
            f"compare wide.csv {OF_POPULARITY}--trust-models ladder --epsilon 1,inf --scale 10 --held-out 0.3 "
            "--mechanisms 'chance,popularity,item kNN,SVD,popularity (Gaussian),popularity (Laplace),subset,set,"
            "set (few likes),pairs'"
        ),
        "compare, add-remove, delta 0": Case(
            COMPARE + "--trust-models curator,two-servers --relation add-remove --delta 0 --epsilon 2 --scale 1,10 "
            "--mechanisms all"
        ),
        "compare, volunteers, directions, votes": Case(
            f"compare wide.csv {OF_POPULARITY}--trust-models two-tier,local,public-rates,coordinator --epsilon 2 "
            f"--scale 10 --public 0.3 --clients 2 --devices 2000 --mechanisms '{others}'"
        ),
        "compare, latest held out, by activity": Case(
            f"compare wide.csv {OF_POPULARITY}--split-by time --trust-models none,local --epsilon 4 --scale 1 "
            "--by activity --mechanisms popularity,set"
        ),
    }


def _years() -> dict[str, Case]:
    small = "years --items 200 --likes 5 --periods 3 --people 3000 --seeds 4 "
    return {
        "years, every rung": Case(small + "--schedule split,rotate,front --filter-drift estimated"),
        "years, churn, stay": Case(small + "--trust-models curator,local --churn 0.2 --schedule once,stay:2"),
    }


def _scrutiny() -> dict[str, Case]:
    audit, behind = "audit --releases 4000 --design ", " --trust {} --epsilon 2"
    return {
        "audit, grr": Case(audit + "grr"),
        "audit, sign": Case(audit + "sign --setting vectors=2 --epsilon 1/2"),
        "audit, shuffled": Case(audit + "grr" + behind.format("shuffled")),
        "audit, two servers": Case(audit + "totals" + behind.format("two-servers")),
        "check, grr": Case("check grr --epsilon 1"),
        "check, pairs, a setting": Case("check pairs --epsilon 3 --setting chosen=2"),
        "check, shuffled": Case("check set --trust shuffled"),
        "check, two servers": Case("check totals --epsilon 1"),
    }


CASES = {
    **_designs(),
    **_oracles(),
    **_subsets(),
    **_pairs(),
    **_policies(),
    **_files(),
    **_liars(),
    **_tiers(),
    **_online(),
    **_sweeps(),
    **_theory(),
    **_comparisons(),
    **_years(),
    **_scrutiny(),
}
"""By name, as they are in the golden file."""
