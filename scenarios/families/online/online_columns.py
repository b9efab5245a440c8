"""The columns of an online record."""

from __future__ import annotations

from scenarios.show.columns import Average, Column

COLUMNS = (
    Column(name="seed", average=Average.FIRST),
    Column(name="trust_model", words="trust model"),
    Column(name="guarantee", words="guarantee"),
    Column(name="clients", words="clients"),
    Column(name="rounds", words="rounds T"),
    Column(name="lines_skipped", words="bad lines of the file left out"),
    Column(name="skipped", words="rounds skipped (client likes nothing)"),
    Column(name="objects", words="objects m"),
    Column(name="voters", words="voters N"),
    Column(name="refused", words="voters that stay away"),
    Column(name="malicious", words="share of voters that lie"),
    Column(name="attack", words="attack"),
    Column(name="liars", words="voters that lie", average=Average.MEAN),
    Column(name="peers", words="peers P, promised"),
    Column(name="peers_measured", words="  as there are"),
    Column(name="diversity", words="diversity D"),
    Column(name="radius", words="radius R"),
    Column(name="loss", words="loss: disliked recommendations", average=Average.MEAN),
    Column(name="loss_bound", words="  its bound"),
    Column(name="loss_random", words="  of random recommendations", average=Average.MEAN),
    Column(name="loss_share", average=Average.MEAN, most=1),
    Column(name="epsilon_proved", words="epsilon, proved [nats]", average=Average.WORST),
    Column(name="epsilon_exact", words="epsilon, exact worst case [nats]", average=Average.WORST),
    Column(name="epsilon_needed", words="  any algorithm with that bound of the loss needs at least [nats]"),
    Column(name="privacy_loss_of_run", words="exact privacy loss of this run [nats]", average=Average.WORST),
    Column(name="privacy_loss_of_peers", words="  peers included", average=Average.WORST),
    Column(
        name="voter_epsilon",
        words="epsilon of a voter, all clients [nats]",
        average=Average.WORST,
        unless_one="clients",
    ),
    Column(
        name="voter_loss",
        words="exact loss of a voter, all clients [nats]",
        average=Average.WORST,
        unless_one="clients",
    ),
    Column(name="budget", words="budget of a voter [nats]"),
    Column(name="peers_alive", words="peers alive at the end", average=Average.MEAN),
    Column(name="survivors", words="voters alive at the end", average=Average.MEAN),
    Column(name="log_likelihood", average=Average.NOTHING),
    Column(name="seconds", words="seconds"),
    Column(name="recommendations_sha256", words="SHA-256 of all recommendations", average=Average.NOTHING),
)
"""Columns of a record; what is proved or leaked counts by the largest of clients, and of seeds."""
