"""The subjects that come with the suite, one file each."""
