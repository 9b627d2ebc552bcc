"""Words: names that were probably meant, tables as text, settings as JSON."""
