"""What runs in the rivals' environments: nothing here imports blindrec, and every script ends with one line of JSON."""
