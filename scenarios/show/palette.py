"""One colour and one shape a rung, the same in every picture, page and notebook."""

from types import MappingProxyType

COLOURS = MappingProxyType(
    {
        "curator": ("#1f5fe0", "#6f8ff7"),
        "two-servers": ("#00714f", "#49e3b9"),
        "shuffled": ("#7a2d0a", "#e8703a"),
        "local": ("#c2108a", "#fdaef3"),
        "two-tier": ("#826e10", "#e6e04a"),
        "ink": ("#15191e", "#eceff2"),
        "quiet": ("#505a65", "#a8b2bd"),
        "paper": ("#ffffff", "#14181d"),
        "panel": ("#f4f6f8", "#1c2127"),
        "line": ("#c9d0d7", "#3a434d"),
        "grid": ("#e6eaee", "#2a323a"),
        "goal": ("#edf1f5", "#20272f"),
        "warning": ("#6f1610", "#ffb4ab"),
        "warned": ("#fdeceb", "#3b1512"),
    }
)
"""Light and dark. Text in a rung's colour has a contrast of at least 4.6 with paper and panel, and no two rungs are
closer than 13.6 (CIEDE2000) for people who see no red, no green or no blue."""
SHAPES = MappingProxyType(
    {"curator": "square", "two-servers": "triangle-up", "shuffled": "circle", "local": "diamond", "two-tier": "cross"}
)
"""Of points of a rung, in Vega-Lite's words."""
MARKERS = MappingProxyType({"curator": "s", "two-servers": "^", "shuffled": "o", "local": "D", "two-tier": "P"})
"""The same in matplotlib's."""
