"""What holds for every test: property tests are repeatable and not timed. `--hypothesis-profile=explore` looks for new cases."""

from hypothesis import settings

settings.register_profile("house", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("house")
