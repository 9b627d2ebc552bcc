"""Threads of the CPU: compiling beside runs, pieces of calls, and what is known of their speed."""
