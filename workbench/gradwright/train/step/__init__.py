"""One step of a training: its graph, what it updates, what it refuses, what is noted of it."""
