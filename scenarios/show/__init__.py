"""What results look like: pictures as panels that are declared and drawn in one place, and pages to show."""
