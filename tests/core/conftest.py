"""Properties are judged by what they say, not by how fast a loaded machine is."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
