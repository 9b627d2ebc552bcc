"""What the server tells of files: a module a kind of answer, run in a process beside it."""
