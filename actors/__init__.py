"""The private side: devices that hold ratings and answer queries with privatized releases."""

import coordinator.protocol  # noqa: F401 (it names the folder of compiled kernels, before numba is loaded)

PART_OF = "blindrec"
