"""Where ratings come from, files or block models, how they are split, and how advice on them is scored."""
