"""Exit codes of the command line."""

OK = 0
ERROR = 1  # one sentence on stderr says what
USAGE = 2  # wrong usage; click's own code
NOT_STORED = 3  # a resource is not valid, or was not stored or deleted
WARNINGS = 4  # of `doctor`: nothing is broken yet
INTERRUPTED = 130  # what shells report for Ctrl-C
CLOSED_PIPE = 141  # what shells report for a program that writes to a closed pipe
