"""The command line. Tables and data go to stdout, everything else to stderr; ``terminal`` alone prints."""
