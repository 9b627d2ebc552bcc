"""A graph as columns that a browser draws: no widgets here, so that a server makes them, too."""
