"""Command line of robench. Tables and data go to stdout, everything else to stderr; only ``terminal`` prints."""
