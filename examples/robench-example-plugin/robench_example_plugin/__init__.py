"""Example plug-ins for robench, one of each family: ``x.py`` declares and has no torch, ``x_impl.py`` computes."""
