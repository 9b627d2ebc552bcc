"""Images: resizing, sampling, regions, colour."""
