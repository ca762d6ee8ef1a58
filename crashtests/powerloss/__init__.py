"""Losing power: what SIGKILL cannot show, since the page cache outlives the process.

`disk` knows what of a directory is durable, `watch` tells it of every sync of a life, `sqlite_syncs` of sqlite's own.
Before a life dies at a crash point with `!` behind it, what was not synced is taken away again. `bound` says at which
schedules the campaign loses power; `trace` finds the same out from system calls, and is how the model is checked.
"""
