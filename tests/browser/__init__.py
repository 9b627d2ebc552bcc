"""A package, so that its fixtures end with it: Playwright's loop would be in the way of others'."""
