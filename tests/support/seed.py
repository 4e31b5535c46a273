"""Seed of the tests that draw: the same in every run, unless ``SEED`` names another one."""

import os

IS_NAMED = "SEED" in os.environ
SEED = int(os.environ.get("SEED", "1"))
