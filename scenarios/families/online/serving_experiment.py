"""Online recommendation as an experiment, `blindrec online`: a coordinator hides voters from clients."""

from coordinator.server.online.recommenders import named_recommenders
from scenarios.experiment.experiment import Experiment
from scenarios.families.online.online_scenario import PLANTED, RECORD_COLUMNS, OnlineScenario
from scenarios.store.manifest import ONLINE
from scenarios.store.whole_files import size_of

_HELP = """Serve clients online: voters vote on m new objects a round, one is recommended, the client likes it or not.

p-REC hides the voters from the client: whatever the client sees, one voter more or less changes its probability by at
most a factor e^epsilon. The coordinator is trusted with the votes (trust model curator). Recommenders:

\b
"""
_HELP += "\n".join(f"  {name:23}{one.about}" for name, one in named_recommenders().items())
_HELP += """

Without a file the environment is random: each client has P peers, who vote as it likes but in R rounds of their own;
it likes two objects in D rounds; all other voters vote at random. With --ratings users of a file are voters and
clients, a round is m titles that the client rated, and P, D and R are measured. With --world a TOML file writes one
client's rounds down (votes = a row a round, a number a voter; likes = a row a round, the objects that it likes).

The result has the loss (disliked recommendations) beside its bound, epsilon as proved and, where it can be
computed, exactly, and this run's exact privacy loss: the largest log-likelihood ratio that one voter's absence makes.
With several --clients a voter's exposures add up (voter_epsilon); --budget lets voters stay away from more.

With --out every client is kept as soon as it is served: a run that was killed or interrupted goes on after the last one
by blindrec resume FOLDER, or by the same command.

\b
  blindrec online --recommender p-rec-lean --rounds 1000
  blindrec online --ratings ratings.csv --clients 50 --out served
"""


class Online(Experiment[OnlineScenario]):
    """Clients are served one after the other, from the votes of those who share their taste."""

    name = ONLINE
    runner = "scenarios.families.online.online_seed:serve_seed"
    kind = OnlineScenario
    columns = RECORD_COLUMNS
    titled = "recommender"
    files = ("ratings", "world")
    named = ("clients", "rounds", "voters", "epsilon_proved", "repeat", "loss", "loss_bound", "loss_random", "seconds")
    help = _HELP

    def work(self, scenario: OnlineScenario) -> float:
        """Predict it from all clients' rounds: 0.2 ms each, and 20 ns a vote; a file has a voter every 256 bytes."""
        file = scenario.ratings or scenario.world
        voters = scenario.voters or (PLANTED["voters"] if file is None else size_of(file) // 256)
        return scenario.clients * (scenario.rounds or PLANTED["rounds"]) * (2e-4 + 2e-8 * voters)
