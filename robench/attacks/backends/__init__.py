"""Attacks of other libraries behind robench's declarations, as references; all are optional."""
