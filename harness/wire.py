"""What can be stored and sent: JSON without NaN, without lone surrogates (rule A9), and not nested without end.

Python's own limit on nesting depends on how deep the stack is at that moment, so that a value could be read and then
not be saved, or saved and then not be read. A fixed limit far below it cannot.
"""

from __future__ import annotations

import json
from typing import Any

NESTING_MAX = 100


def wire_json(value: Any) -> str | None:
    """`value` as JSON text, None if it cannot be stored and sent."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError):
        return None
    return text if is_shallow(value) else None


def is_shallow(value: Any, levels: int = NESTING_MAX) -> bool:
    """Whether lists and dicts are nested at most `levels` deep in `value`."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else None
    return children is None or (levels > 0 and all(is_shallow(child, levels - 1) for child in children))
