"""Bad input into every surface of a running cluster."""
