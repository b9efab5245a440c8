"""The private side: devices that hold ratings and answer queries with privatized releases."""

PART_OF = "blindrec"
