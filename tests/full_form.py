"""Whether tests run in their full form: AIDAEMON_TEST_FULL=1."""

import os

FULL = os.environ.get("AIDAEMON_TEST_FULL") == "1"
