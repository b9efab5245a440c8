"""The columns of a record of a run in which devices lied."""

from __future__ import annotations

from scenarios.report.columns import Average, Column

LYING = (
    Column(name="malicious", words="share of liars"),
    Column(name="attack", words="attack"),
    Column(name="lied_about", words="items lied about", average=Average.COUNT),
    Column(name="lies", words="answers that are lies", average=Average.MEAN),
    Column(name="labels_wrong", words="labels wrong, clusters not swapped", average=Average.MEAN),
    Column(name="labels_wrong_predicted", words="labels wrong, not swapped, predicted", average=Average.FORMULA),
    Column(name="all_right", words="all labels right, not swapped", average=Average.SHARE),
    Column(name="decided_wrong", words="decided items with a wrong label", average=Average.MEAN),
    Column(name="promoted_rank", words="mean rank of promoted items", average=Average.MEAN),
    Column(name="promoted_rank_predicted", words="mean rank of promoted items, predicted", average=Average.FORMULA),
    Column(name="tipping_share", words="share of liars that tips an item", average=Average.FORMULA),
    Column(name="tipping_limit", words="share of liars that tips any design", average=Average.FORMULA),
)
"""Columns of a record with liars; others have none of these keys."""
