"""What each optimizer does in one step."""
