"""What all widgets share: traits and messages, the desk, following a trainer."""
