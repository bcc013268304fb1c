"""Nouns and protocols of robench: frozen values that need the standard library and numpy alone."""
