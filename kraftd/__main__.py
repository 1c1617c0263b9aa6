"""`python -m kraftd`: the same as the console script `kraftd`."""

from kraftd.runtime.main import main

if __name__ == "__main__":
    main()
