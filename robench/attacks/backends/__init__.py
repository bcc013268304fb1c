"""Attacks of other libraries behind robench's declarations, as references; none is needed to use robench."""
