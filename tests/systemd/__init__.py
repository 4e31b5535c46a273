"""Tests of the units for systemd."""
