"""Our nodes beside those of another runtime."""
