"""What a model answers to prompts that it was not trained on, and what has changed since."""
