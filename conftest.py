"""What every test of the project starts from: a clean environment, and the campaign's plugin."""

from __future__ import annotations

import os

pytest_plugins = ["crashtests.plugin"]

# The SDK reads credentials, addresses and headers from the environment; no test may depend on whose machine it is.
for name in [name for name in os.environ if name.startswith("ANTHROPIC_") or name == "CRASH_AFTER"]:
    del os.environ[name]
