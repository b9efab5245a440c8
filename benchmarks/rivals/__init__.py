"""The same one-bit job beside Flower's simulation engine and pure-ldp's clients, each in an environment of its own."""
