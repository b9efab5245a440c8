"""Flower's client: one question comes as a message, one bit goes back as one.

A module of its own, so that Flower's actors import it once instead of getting its code with every message.
"""

from __future__ import annotations

from typing import Any

from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from benchmarks.rivals.inside.one_bit import OneBit

app = ClientApp()


def answer(message: Any, context: Any) -> Any:
    """Answer as the client whose number is the query's first client plus the node's own number."""
    query = message.content["query"]
    job = OneBit(items=query["items"], rated=query["rated"], epsilon=query["epsilon"], seed=query["seed"])
    bit = job.answer(query["first"] + int(context.node_config["partition-id"]))
    return Message(RecordDict({"answer": MetricRecord({"bit": bit})}), reply_to=message)


app.query()(answer)
