"""Pictures of results, drawn from what a folder or `--json` holds, in one style."""
