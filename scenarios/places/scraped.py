"""Where Ray's metrics are scraped: each node has a port of its own."""

from __future__ import annotations

from typing import Any

import ray

from scenarios.given.signals import say

_SHOWN = 3


def scraped() -> list[str]:
    """Return the addresses of the living nodes' metrics, the coordinator's node among them."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call] # Ray gives it no types
    return [
        f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics" for node in nodes if node["Alive"]
    ]


def tell_scraped() -> None:
    """Say where a scraper finds the run's metrics."""
    places = scraped()
    more = f" and {len(places) - _SHOWN} nodes more" if len(places) > _SHOWN else ""
    say(f"metrics (ray_blindrec_...) are scraped at {', '.join(places[:_SHOWN])}{more}")
