"""Data of alignment: from the columns of the field to rows of tokens."""
