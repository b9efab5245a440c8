"""One experiment: a scenario, its run on a backend, its columns; flags, folders, means and tables follow from these."""
