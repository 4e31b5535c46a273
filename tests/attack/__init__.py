"""Attacks on running clusters: who is no member gets in nowhere, reads nothing, changes nothing."""
