"""Where experiments happen: in this process, on Ray here, or on a cluster."""
