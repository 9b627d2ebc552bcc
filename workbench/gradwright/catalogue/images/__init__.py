"""Images: resizing, sampling, regions, colour."""

from . import colour, cropping, filters, grids, regions, resize, suppression
