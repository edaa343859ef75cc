"""Records what a live drafter is given and what it makes of it (`TRUEDRAFT_TRACE`); nothing is imported or
wrapped without that variable.
"""
