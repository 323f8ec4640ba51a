"""`python -m servo`: the command line, where the command `servo` is not on the path."""

from servo.cli.main import main

if __name__ == "__main__":
    main()
