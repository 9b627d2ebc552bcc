"""Several methods one after another, as one object that is planned, run, resumed and reported."""
