"""The adapters of a model: what they train, how far they have moved, and those on disk."""
