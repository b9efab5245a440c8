"""Pages that build something of one's own: their module as it stands there, or as a reader may change it, and run."""

from dataclasses import dataclass
from typing import Any

from runs import Command

from benchmarks.pages import modules, read


@dataclass(frozen=True)
class OwnPage:
    """A page and the module that it shows; tests work in a folder that holds it."""

    page: str
    module: str

    @property
    def text(self) -> str:
        """All of the page."""
        return read(self.page)

    @property
    def code(self) -> str:
        """The page's module."""
        return dict(modules(self.text))[self.module]

    @property
    def lines(self) -> int:
        """Lines of the module that are not blank."""
        return sum(1 for line in self.code.splitlines() if line.strip())


def result(command: Command, *arguments: object) -> dict[str, Any]:
    """What a command that must end well prints."""
    ended = command(*arguments, "--json", "-")
    assert ended.code == 0, ended.err
    return ended.result
