"""What results look like: columns, intervals, records as JSON, tables on a terminal."""
