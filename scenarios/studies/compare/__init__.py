"""What recommendations are worth under each trust model: all of them on one split of one file."""
