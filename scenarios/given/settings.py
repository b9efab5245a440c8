"""What scenarios of all experiments share: how their values are given, and how they are given again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coordinator.protocol.errors import InputError
from scenarios.given.validation import first_line

SEED = "Everything random follows from it [0]."
COLUMNS = "Names of the file's user, item and rating columns."
LIKE_FROM = "Ratings from here on are likes [above own mean]."
FEATURES = "Public features of items: a CSV with their ids, and columns of words split by '|'."
OWN = "package.module:Name"

Seed = Annotated[int, Field(ge=0, lt=1 << 63)]
"""Of a scenario."""


class ExperimentScenario(BaseModel):
    """A scenario: flat values, each with its description, which is also its flag's help."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise InputError(first_line(error, type(self))) from None

    brought: ClassVar[dict[str, tuple[str, ...]]] = {}
    """Fields that a file brings itself, by the field that names the file."""

    def flat(self) -> dict[str, Any]:
        """Return the values as JSON, as a file of a scenario has them."""
        values: dict[str, Any] = self.model_dump(mode="json")
        return values

    def again(self) -> dict[str, Any]:
        """Return the values that run this scenario again, as `flat` has them: paths are absolute, nothing is None."""
        values = {name: value for name, value in self.flat().items() if value is not None}
        for name, theirs in self.brought.items():
            if name in values:
                values[name] = str(getattr(self, name).absolute())
                values = {key: value for key, value in values.items() if key not in theirs}
        return values
