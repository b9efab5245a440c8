"""Golden results: what the program answered before its modules moved, and must answer for as long as they move.

`cases` lists command lines, `inside` is the one place that imports the project, `comparing` knows what counts.
`python -m tests.golden --write` makes golden.json anew.
"""
