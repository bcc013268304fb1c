"""The nouns and protocols of robench: frozen values, standard library alone."""
