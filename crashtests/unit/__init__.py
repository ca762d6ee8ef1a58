"""Tests of the harness itself: its parts one by one, and its lives ended by real kills."""
