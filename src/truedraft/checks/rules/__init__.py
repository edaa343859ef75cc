"""One rule per file; `all_rules` finds them here. A rule has CODE, NAME, a manual page and `check`."""
