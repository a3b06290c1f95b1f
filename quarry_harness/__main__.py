"""`python -m quarry_harness` is the same as `quarry`."""

from quarry_harness.cli import main

if __name__ == "__main__":
    main()
