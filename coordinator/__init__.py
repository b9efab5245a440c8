"""The untrusted side: what a server that sees releases only can do."""

PART_OF = "blindrec"
