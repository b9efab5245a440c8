"""Two-tier rivals at the server: exact vectors, Laplace noise, PrivUnit and SSLP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from coordinator.protocol.second_order_channels import basis_of
from coordinator.server.completion.mechanisms import HALF, SecondOrderServer

if TYPE_CHECKING:
    from coordinator.protocol.arrays import Floats2
    from coordinator.protocol.features import ItemFeatures
    from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease


class PrivUnit(SecondOrderServer):
    """Moments of directions: r rows a batch, of a weight that is validated."""

    def rows(self, features: ItemFeatures, releases: Sequence[SecondOrderRelease]) -> int:
        """Return r, or 0 without releases."""
        return features.rank if releases else 0

    def reading_features(self, features: ItemFeatures) -> ItemFeatures:
        """Return the model with its directions."""
        return features

    def blocks(
        self,
        query: SecondOrderQuery,
        features: ItemFeatures,
        releases: Sequence[SecondOrderRelease],
        *,
        rescale: bool,  # noqa: ARG002 (moments have the energy that they are given here)
    ) -> Iterator[Floats2]:
        """Yield r rows whose second moment is the batch's: the noise is averaged first, then negative parts are cut."""
        if not releases:
            return
        basis = basis_of(features)
        gram = basis.T @ basis
        size = features.items * features.common_h**2
        moments = [release.as_moment(features, query) for release in releases]
        values, directions = np.linalg.eigh(sum(moments, np.zeros_like(gram)) * size)
        inside = directions * np.sqrt(np.maximum(values, 0))
        rows: Floats2 = inside.T @ np.linalg.pinv(gram, hermitian=True) @ basis.T
        yield rows


SERVER = (
    SecondOrderServer(name="exact", weight=HALF, swept=("",), attacked=()),
    SecondOrderServer(name="laplace", swept=("5", "1"), attacked=("5", "1")),
    PrivUnit(name="privunit", swept=("5",)),
    SecondOrderServer(name="sslp", swept=("5",)),
)
