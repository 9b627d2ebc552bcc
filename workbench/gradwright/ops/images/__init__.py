"""Images: resizing, sampling, regions, colour."""

from ...op import Family

FAMILY = Family("Images", drawing="math")
