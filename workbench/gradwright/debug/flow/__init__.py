"""Where a gradient goes on its way from the loss to a parameter, and what becomes of it there."""
