"""`python -m lfiw`, for where the command is not on the path."""

from lfiw.cli import main

if __name__ == "__main__":
    main()
