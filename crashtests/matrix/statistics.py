"""The interval in which a rate lies that was seen as n of N."""

from __future__ import annotations

from math import sqrt

# The normal distribution's quantile for two-sided 95 %.
_Z = 1.959964


def wilson(n: int, of: int) -> tuple[float, float]:
    """The Wilson score interval, 95 %, of a rate seen as `n` of `of`: two numbers from 0 to 1. ValueError if of < 1."""
    if not 0 <= n <= of or of < 1:
        raise ValueError(f"n={n}, of={of}: a rate needs 0 <= n <= of and of >= 1")
    rate, z2 = n / of, _Z * _Z
    middle = (rate + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z / (1 + z2 / of) * sqrt(rate * (1 - rate) / of + z2 / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)
