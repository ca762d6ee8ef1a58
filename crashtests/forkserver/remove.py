"""Owns the removal of a directory with all that is in it: fast in the common case, and whatever a life has
left there.

Client and server both use it. It does not know whose directory it is.
"""

from __future__ import annotations

import contextlib
import os


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Remove a directory and all below it: quickly if nothing is in the way, even if its modes forbid it."""
    try:
        _remove_tame_tree(path)
    except FileNotFoundError:
        if os.path.lexists(path):
            _remove_stubborn_tree(path)
    except OSError:  # no permission, or somebody still makes files in it
        _remove_stubborn_tree(path)


def _remove_tame_tree(path: str | os.PathLike[str]) -> None:
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _remove_tame_tree(entry.path)
            else:
                os.unlink(entry.path)
    os.rmdir(path)


def _remove_stubborn_tree(path: str | os.PathLike[str]) -> None:
    import shutil  # only here, since the server loads this module, and every fork would copy its pages

    with contextlib.suppress(FileNotFoundError):
        os.chmod(path, 0o700)
    for parent, directories, _ in os.walk(path):  # top down: a directory is opened up before it is listed
        for name in directories:
            below = os.path.join(parent, name)
            if not os.path.islink(below):
                with contextlib.suppress(FileNotFoundError):
                    os.chmod(below, 0o700)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)
