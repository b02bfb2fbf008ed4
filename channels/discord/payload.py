"""What Discord sends, as it came: an object of JSON, whose parts are known only when they have been read."""

from collections.abc import Mapping
from typing import Any

Payload = Mapping[str, Any]
