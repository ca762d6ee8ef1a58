"""The crash-test campaign: kills a harness anywhere, resumes it, and judges what is left."""
