"""What indices name: values that are joined there, rows that are taken from there."""
