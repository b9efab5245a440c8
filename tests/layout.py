"""What a picture must keep so that it can be read: labelled axes, no text on text, no interval on an interval."""

from collections.abc import Iterable, Iterator
from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.container import Container, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

NEAR = 2.0  # Pixels between two intervals at which they cannot be told apart any more


def faults(figure: Figure) -> Iterator[str]:
    """Yield a line for everything about a figure that cannot be read."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call] # the library's own
    for axes in (one for one in figure.axes if one.axison):
        for name, told in (("x", axes.get_xlabel()), ("y", axes.get_ylabel())):
            names = [tick.get_text() for tick in axes.get_yticklabels()] if name == "y" else []
            if not told and not any(word.isalpha() for text in names for word in text):
                yield f"axis {name} of panel {axes.get_title()!r} has no label"
        yield from _bars(axes.containers)
    texts = [(text.get_text(), text.get_window_extent()) for text in _texts(figure)]
    page = Bbox.from_bounds(-1, -1, *(side + 2 for side in canvas.get_width_height()))
    for told, box in texts:
        if not (page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1):
            yield f"text {told!r} leaves the figure"
    for (one, box), (other, beside) in combinations(texts, 2):
        if Bbox.intersection(box.padded(-1), beside.padded(-1)) is not None:
            yield f"text {one!r} lies on {other!r}"


def _texts(figure: Figure) -> Iterator[Text]:
    hidden = {*_hidden(figure)}
    for text in figure.findobj(Text):
        if text.get_text() and text.get_visible() and id(text) not in hidden:
            yield text


def _hidden(figure: Figure) -> Iterator[int]:
    """Yield texts that are never drawn: of ticks beyond an axis, and of panels that are switched off."""
    for axes in figure.axes:
        if not axes.axison:
            yield from (id(text) for text in axes.findobj(Text))
        for axis in (axes.xaxis, axes.yaxis):
            drawn = axis._update_ticks()  # type: ignore[union-attr] # there is no public way
            far = [tick for tick in (*axis.majorTicks, *axis.minorTicks) if tick not in drawn]
            yield from (id(text) for tick in far for text in (tick.label1, tick.label2))


def _bars(containers: Iterable[Container]) -> Iterator[str]:
    """Yield where an interval lies on another one's."""
    boxes = [
        (str(container.get_label()), box)
        for container in containers
        if isinstance(container, ErrorbarContainer)
        for lines in container.lines[2]
        for box in _boxes(lines)
    ]
    for (one, box), (other, beside) in combinations(boxes, 2):
        if Bbox.intersection(box.padded(NEAR / 2), beside.padded(NEAR / 2)) is not None:
            yield f"an interval of {one!r} lies on one of {other!r}"


def _boxes(lines: LineCollection) -> Iterator[Bbox]:
    for segment in lines.get_segments():
        ends = lines.get_transform().transform(segment)
        if abs(ends[0] - ends[1]).max() > 1:
            yield Bbox(ends)
