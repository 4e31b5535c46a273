"""The embedded one-machine cluster and the demo."""
