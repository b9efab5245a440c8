"""What the keys of results mean, one sentence each; the site makes its page of columns from it."""

import re
from collections.abc import Mapping

_TEXT = """
# Every result
trust_model: who has to be trusted so that the guarantee holds
guarantee: what is guaranteed, in words
neighbours: which two sets of data epsilon compares: replace, one person's ratings by any others; or add-remove, one
    person more or less
delta: probability that epsilon fails; null where nothing is guaranteed
mechanism: what randomizes a device's answer
design: what is asked, released and estimated
epsilon: privacy parameter of what the untrusted party sees, in nats; "inf" is no noise
users: devices that are simulated, or that are needed
people: persons of a file
items: items that are asked about
seed: first seed, from which every random number follows
seconds: time by the clock
backend: where it ran, inprocess or ray
backend_reason: why this backend was chosen
workers: blocks of devices that are worked on at a time
actors: processes of devices; null without Ray
devices_per_actor: devices of one such process at most
retries: blocks of devices that were asked again because a process died
restarts: times that the coordinator was started again
provenance: the command, when it ended, versions, and the digest of a file of ratings
repeat: number of seeds
runs: the records of the single seeds
intervals: the intervals of 95 % of means over seeds, by column
level: confidence of the intervals

# Privacy of a run
channel: name of the exact channel; says if it is claimed and not checked
epsilon_local: epsilon of a device's own report, if the shuffler reveals who sent it
amplified_for: answers of a round that a central epsilon counts on
smallest_round: answers of the smallest round
smallest_round_reason: why no round is smaller
bound: which bound of the amplification holds
noise: who adds the noise of sums of shares
noise_deviation: standard deviation of the noise of a total
pair_deviation: standard deviation of the noise of a total of a pair
honest_noise: devices whose noise together is enough
bytes_per_device: bytes that a device sends to both servers
proofs: what proves that a device's vector is possible
trusted: who is trusted with what
if_trust_fails: what is left of the guarantee if that trust is misplaced
person_epsilon: epsilon of a person, over all devices drawn from that person
person_delta: delta of a person, over all devices drawn from that person
copies_max: devices that were drawn from one person at most
epsilon_per_question: epsilon of one question
spent_max: epsilon that a device has spent at most
spent_mean: epsilon that a device has spent on average

# Answers of a run
rounds: rounds of queries; online, recommendations to a client
asked: devices that were asked
answered: devices whose answers were used
refused: devices without budget left; online, voters that stay away
missing: devices that dropped out or answered too late
bytes_per_answer: bytes of packed releases for each answer
devices_per_second: devices that answered, by the time of the rounds
releases_sha256: digest of all releases, equal on every backend
words_server_sha256: digest of the shares that the server of words received
seeds_server_sha256: digest of the shares that the server of seeds received
policy_error: why the policy ended the run early; null if it did not

# What a run learned
clusters: clusters that items are sorted into
unlearned: items about which nothing was learned
undecided: items that did not reach the confidence; accuracy counts the likeliest cluster of these, too
verified: items that fresh devices were asked about again
verifying_answers: answers of these devices
disputed: labels that these answers contradict
accuracy: share of items in the right cluster, up to the clusters' names
accuracy_predicted: the same share as predicted before the run
exact: whether all items are right; over seeds, the share of seeds
ari: adjusted Rand index of the learned clusters and the true ones
nmi: normalised mutual information of the learned clusters and the true ones
advice_liked: share of the ten items ranked first that a device likes
random_liked: share of random items that a device likes
clusters_follow: what clusters of a file follow: popularity, taste or noise
popularity_share: share of the variance of items' numbers of ratings that lies between clusters
taste_share: share of the variance of items' like rates that lies between clusters
noiseless_ari: adjusted Rand index with the clusters at epsilon inf
top_50: share of the 50 most liked items among the 50 highest scores
rank_correlation: rank correlation of scores with numbers of likes
from_the_file: public constants that were taken from the file itself
lines_skipped: lines of the file that could not be read and were left out

# Lists
hit_rate: share of people of whose held-out likes one is among the ten items ranked first
ndcg: normalised discounted cumulative gain at 10 of held-out likes
recall: share of a person's held-out likes among the ten items ranked first
popularity_hit_rate: hit rate of recommending what most training users like
popularity_ndcg: NDCG of recommending what most training users like
random_hit_rate: hit rate of a random order
random_ndcg: NDCG of a random order
evaluated: people with held-out likes, over whom the mean is taken
people_left_out: people who come after the date of the split
items_unseen: items that were rated after that date only
coverage: share of the items that stand on somebody's list

# Liars
malicious: share of devices that lie
attack: what the liars want
lied_about: items that the liars lie about
lies: share of the answers that are lies
liars: voters that lie
labels_wrong: items with the wrong label, where clusters may not be swapped
labels_wrong_predicted: the same number as predicted before the run
all_right: whether all labels are right, where clusters may not be swapped
decided_wrong: decided items with a wrong label
promoted_rank: mean rank of the promoted items
promoted_rank_predicted: the same rank as predicted before the run
tipping_share: share of liars at which an item gets the wrong label however many users there are
tipping_limit: that share for the best mechanism there can be
liar_likes: likes of one item that one liar is worth
liar_share: share of liars that lifts an item nobody likes to the tenth place

# Online
recommender: algorithm by which the coordinator recommends
clients: clients that are served one after the other
skipped: rounds in which the client likes no object
objects: objects of a round
voters: users whose votes are used
peers: voters that agree with the client as far as promised
peers_measured: peers as there are in the data
peers_alive: peers that still vote at the end
peers_kicked: peers that were struck out
survivors: voters that still vote at the end
diversity: rounds in which several objects are liked
radius: rounds in which a peer errs
loss: recommendations that the client dislikes
loss_bound: proved bound of the expected loss
loss_random: loss of random recommendations
loss_share: loss by the number of rounds
epsilon_proved: epsilon as the paper proves it
epsilon_exact: exact epsilon in the worst case
epsilon_needed: epsilon that any algorithm with this bound of the loss needs at least
privacy_loss_of_run: exact privacy loss of a voter in this run
privacy_loss_of_peers: the same with peers included
voter_epsilon: epsilon of a voter over all clients
voter_loss: exact privacy loss of a voter over all clients
budget: epsilon that a voter may spend
log_likelihood: logarithm of the probability of these recommendations
recommendations_sha256: digest of all recommendations

# Two tiers
public: public users who teach; in a comparison, their share of the people
unseen_items: items that no public user rated
rank: rank of the model
regularisation: weight kappa of the prior
weight: weight of a private release beside a public rating
validation_users: public users on whom the weight was chosen
validated: errors of the settings that were tried on these users
test_ratings: ratings that are held out
test_ratings_of_unseen_items: those of items that no public user rated
rmse: root mean square error of held-out ratings
rmse_public_only: the same error with public users alone
rmse_baseline: the same error if each rating is the item's mean
popularity_hit_rate_error: standard error of popularity's hit rate
popularity_ndcg_error: standard error of popularity's NDCG
overlap_gamma_median: median of gamma of Theorem 3.5 over rated items
overlap_gamma_infinite: share of rated items whose gamma is infinite
iterations: iterations of EM
seconds_per_iteration: median time of an iteration
objective: objective of EM at the end
change: change of the model in the last iteration
convergence: objective, error and change by iteration
error: held-out error after an iteration
models: models that were announced
model_digest: digest of the last model
peak_memory_mb: largest memory of all processes together, in MB

# Plans
target: what the numbers of users are for
holds_for: the world that a plan holds for
not_for: what a plan says nothing about
designs: a row for each mechanism and decoder
users_here: users that there are, to whom accuracy and exact then refer
choice: how the number of questions was set, such as auto
private: private devices that are asked once; in a plan, whether a mechanism protects all that a device holds
agreement: shares of alike pairs that an emulation assumes
rated_items: whether rated items are public
note: what a reader must know of this row
emulated: times that its statistics were drawn; null if it is computed
answers_per_item: answers about each item that item queries take
bounds: lower bounds of the users that any mechanism needs
name: name of the bound or of the setting
valid: whether the bound holds here
binds: whether it is the largest that holds
range: where the bound holds
source: where the bound is proved
failure: probability with which a learner may fail
mistakes: wrong items that are no failure
recommended: the recommended row; null if there is none
recommended_why: why another row with fewer users is not recommended
sufficient_users: users that suffice by Theorem 15
worth: how many people like a file's its private advice takes
withstanding: users that each mechanism needs with liars
cost: what a run of the recommended plan costs
check: a run of the recommended plan

# Comparisons
ratings: file of ratings
people_in_file: persons of the file before anything is left out
public_constants: settings that are declared and never taken from the file
rows: a row for each trust model, mechanism, epsilon and number of people
features: whether devices use public features of items
simulated: how the row was computed: device by device, or from the exact law of its sum
seeds: seeds, each with a split of its own
over_popularity: how much more NDCG than plain popularity, in pairs of the same people
to_popularity: difference in NDCG from plain popularity, in pairs of the same people
hit_rate_to_popularity: difference in hit rate from plain popularity, in pairs of the same people
to_above: difference in NDCG from the row named by above
hit_rate_to_above: difference in hit rate from the row named by above
above: the row that the next smaller trust is compared with
compared: whether the row counts among the others, for curves and numbers of people
messages: messages of a device on average
trust_models: trust models that were asked for
rungs: trust models of the ladder, from most trust to none
trust_in_words: what each trust model trusts whom with
share: share of plain popularity that a list is to reach
at_most: whether the fewest people that were measured already reach the share
few: largest number of people that was measured and falls short of the share
many: smallest number of people that was measured and reaches the share
least: fewest people that were measured
most: most people that were measured
coordinator: what a trusted coordinator saves its clients
remarks: what a reader must know of the comparison
warnings: those of the remarks that limit what may be believed
devices: devices that were simulated one by one

# Sweeps
sweep: kind of the sweep
settings: a row for each setting
setting: number of the setting
criterion: what counts as success: exact, or a share of the items
inside: whether the plan lies in the measured interval
unreached: seeds that never succeed within the limit
predicted: users that the plan says
fits: exponents of users against what varies
slope: exponent that was measured
expected: exponent that the theory says
covers: whether the interval holds the expected exponent
per: what users are divided by before the fit
left_out: settings that a fit leaves out, because a seed never succeeded there
ratios: quotients of users of two decoders or mechanisms
ratio: quotient of users, median over seeds
ratio_predicted: the same quotient as planned
over: decoder whose users are divided
under: decoder by whose users they are divided
probes: shares of items right where the plan says a share
resolution: relative width at which bisection stops
most_users: largest number of users that is tried
schemes: a row for each scheme and number of items
scheme: one round or adaptive rounds, of which mechanism
adaptive: whether rounds adapt
label: name in tables and figures
most_rounds: rounds of the longest run
ran_out: seeds whose users were not enough
right: share of seeds in which all labels are right
trajectory: one adaptive run round by round
statistic: whether devices are simulated or their sums drawn
interval: confidence of the intervals
exact_epsilon: epsilon as it was given, as a fraction
points: a row for each recommender and point of an axis
panels: what each figure shows
axes: what varies, with its values
axis: name of what varies
x: value of what varies
environment: who decides what clients and voters like
epsilon_lower: lower bound of the epsilon of p-REC itself
exact_is_bound: whether epsilon_exact is an upper bound, as it is before N rounds
loss_exact: exact expected loss, where it can be computed
loss_lower_bound: loss that any algorithm has at least
loss_se: standard error of the loss
privacy_loss: exact privacy loss, mean over seeds
privacy_loss_most: the largest one
privacy_loss_any: the same of any voter, peers included
recommenders: a row for each recommender, over all clients
distinct_clients: different persons among the clients
services: clients that were served
to_plurality: difference in loss from the plurality of votes
to_plurality_share: the same difference by the plurality's loss
to_random: difference in loss from random recommendations
to_random_share: the same difference by the loss of random recommendations
world: how the clients' world was made from the file
ratings_sha256: digest of the file of ratings
summary: a row for each point of the paper's figures
figure: number of the paper's figure
curve: curve of the figure
gain: share by which private devices lower the error
base: settings that all units share
targets: ratings that the attack guesses
known: ratings of a device that the attacker knows
exact_right: share of ratings that the attack guesses exactly
flip_found: share of releases whose flip the attack finds
like_error: standard error of like_right, by devices
like_right: share of ratings of which the attack guesses whether they are likes
rated_auc: how well the attack separates rated items from others, as an area under the curve

# Groups of a mechanism
pool_items: items that a round asks about
first_group: share of devices that are asked about all items
second_group: share of devices that rank the items of pairs again
counted_group: share of devices that report how many items they like
padded: values that a device's set is filled up to
chosen: values that a report names
told: what a frequency oracle reports: a liked item, or a rated one
"""
_ENDS = {"_low": "lower end of the interval of", "_high": "upper end of the interval of", "_error": "standard error of"}
_ENDS |= {f"_{end}": f"{end} over clients of" for end in ("least", "mean", "median", "most")}
_ENDS_ALONE = {"low": "lower end of the interval", "high": "upper end of the interval"}


def sections() -> dict[str, dict[str, str]]:
    """Return the meanings of keys, by sections."""
    every: dict[str, dict[str, str]] = {}
    for line in re.split(r"\n(?! )", _TEXT.strip()):
        if line.startswith("# "):
            here = every.setdefault(line.removeprefix("# "), {})
        elif line:
            name, _, words = " ".join(line.split()).partition(": ")
            here[name] = words
    return every


def meaning_of(name: str, settings: Mapping[str, str]) -> str | None:
    """Return what a key of a result means; None where nobody says it."""
    meanings = {name: words for section in sections().values() for name, words in section.items()} | _ENDS_ALONE
    if name in meanings:
        return meanings[name]
    for end, words in _ENDS.items():
        stem = name.removesuffix(end)
        if stem != name and (stem in meanings or stem in settings):
            return f"{words} `{stem}`"
    return settings.get(name)
