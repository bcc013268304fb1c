"""The command line: the only place that prints. Tables and data go to stdout, everything else to stderr."""
