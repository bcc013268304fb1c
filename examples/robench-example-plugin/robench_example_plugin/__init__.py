"""Example plug-ins for robench, one of each family: ``x.py`` declares without torch, ``x_impl.py`` computes."""
