"""A gradient check beside a training: it goes on in small slices, and never has all the time."""
