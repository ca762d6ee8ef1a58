"""A life for the tests of `watch`: it prints what stands in the place of `os.fsync`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from crashtests.powerloss.watch import watch


def live(request: dict[str, Any]) -> None:
    if request["watch"]:
        watch(Path(request["run"]), "json")
    print(os.fsync.__name__)
