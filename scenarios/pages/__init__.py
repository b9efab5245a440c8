"""Pages to show: results as one self-contained HTML file, where each number names the place that it was read from."""
