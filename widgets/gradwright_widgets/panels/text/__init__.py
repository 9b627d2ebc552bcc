"""Text of a language model: written token by token, scored, and looked into."""
