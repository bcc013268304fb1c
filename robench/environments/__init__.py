"""Environments of Gymnasium that policies act in: changes of physics and spaces, and episodes stepped together.

``base.py`` needs no numpy. Gymnasium and MuJoCo are optional (extra ``control``) and imported when they are used.
"""
