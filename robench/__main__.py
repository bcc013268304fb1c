"""``python -m robench`` is the same as ``robench``."""

from robench.cli.main import main

if __name__ == "__main__":
    main()
