"""Planting a bug: an edit of a module's source, applied when the module is imported and never to the file on disk."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType


class PlantError(Exception):
    """The edit does not fit: the module was imported already, or `before` does not stand in it exactly once."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `before`, which stands exactly once in the source of `module`, by `after`."""

    module: str
    before: str
    after: str

    def apply(self, source: str) -> str:
        """The edited source. Raises `PlantError`."""
        if (times := source.count(self.before)) != 1:
            raise PlantError(f"{self.before!r} stands {times} times in {self.module}, not exactly once")
        return source.replace(self.before, self.after)


def install(edit: Edit) -> None:
    """Have `edit` applied when its module is imported in this process. Raises `PlantError` if it was already."""
    if edit.module in sys.modules:
        raise PlantError(f"{edit.module} is imported already; an edit must be installed before")
    sys.meta_path.insert(0, _Finder(edit))


_HOOK = """
import json, sys
sys.path.insert(0, {root!r})
from crashtests import planted
sys.path.remove({root!r})
planted.install(planted.Edit(**json.loads({edit!r})))
# As if it had never been here: what an interpreter has imported is looked at by tests.
for name in [name for name in sys.modules if name.partition(".")[0] == "crashtests"]:
    del sys.modules[name]
"""


def write_hook(edit: Edit, directory: Path) -> None:
    """Write into `directory` a module that has `edit` installed in every interpreter with the directory on its path."""
    root = str(Path(__file__).parents[1])
    text = _HOOK.format(root=root, edit=json.dumps(asdict(edit)))
    (directory / "sitecustomize.py").write_text(text, encoding="utf-8")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, edit: Edit) -> None:
        self._edit = edit

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._edit.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None:
            raise PlantError(f"{fullname} has no source to edit")
        spec.loader = _Loader(fullname, spec.origin, self._edit)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, edit: Edit) -> None:
        super().__init__(fullname, path)
        self._edit = edit

    def get_code(self, fullname: str) -> object:  # type: ignore[override]  # what the base promises is a code object
        source = self._edit.apply(self.get_data(self.get_filename(fullname)).decode())
        return compile(source, f"{self.get_filename(fullname)} (planted bug)", "exec")
