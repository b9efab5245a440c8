"""Submission: a command of blindrec sent to a Ray cluster as a job, followed, and its result fetched."""
