"""Small calls: what a call costs beside what it computes."""
