"""Entry point of ``python -m robench``, the same as ``robench``."""

from robench.cli.main import main

if __name__ == "__main__":
    main()
