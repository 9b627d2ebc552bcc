"""Random numbers of more distributions."""
