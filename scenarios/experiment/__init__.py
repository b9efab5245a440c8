"""One experiment: a scenario, its run at a place, its columns; flags, folders, means and tables follow from these."""
