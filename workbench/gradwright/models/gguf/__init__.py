"""Language models in GGUF files: read without a copy, and written."""
