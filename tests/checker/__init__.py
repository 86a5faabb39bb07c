"""What the checker must find, done by hand."""
