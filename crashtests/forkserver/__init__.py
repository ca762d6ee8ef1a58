"""The fork server: lives as forked processes, told truthfully how they ended.

`client` is for the campaign, `child` (`announce`, `die`) for what runs in a life; this package imports neither, since
a life must not pay for the client.
"""
