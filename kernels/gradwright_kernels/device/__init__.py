"""The devices: memory, streams and launches of a GPU, or of one that is simulated."""
