"""Mutated input into five surfaces of a running cluster, and a judge of what it does to it."""
