"""One module a stage: each joins the store and the pure rooms and returns a plain result for the command line.

Every stage takes the workspace's folder first, does only what is not done yet, and keeps what it did when it is ended.
"""
