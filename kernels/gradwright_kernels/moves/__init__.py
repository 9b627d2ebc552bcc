"""Elements that are put elsewhere, and stay as they are."""
