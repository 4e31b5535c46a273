"""Tests of the chart for Kubernetes."""
