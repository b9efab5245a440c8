"""A schedule of your own: everybody answers every second period.

Where answers of two periods running say nearly the same, half of them tell as much.
"""

from fractions import Fraction

from blindrec import Horizon, Panel, Schedule


class EverySecond(Schedule):
    """Two panels take turns, and each person's budget is split over half of the periods."""

    def panels(self, arrival: int, horizon: Horizon) -> tuple[Panel, ...]:
        """Return both panels; a public coin says who is in which."""
        made = []
        for turn in range(2):
            periods = [period for period in range(1, horizon.periods + 1) if period % 2 == turn]
            share = Fraction(1, len(periods))
            shares = [
                share if period in periods and period >= arrival else Fraction(0)
                for period in range(1, horizon.periods + 1)
            ]
            made.append(Panel(weight=Fraction(1, 2), shares=tuple(shares)))
        return tuple(made)
