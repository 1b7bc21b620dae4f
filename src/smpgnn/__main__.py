"""`python -m smpgnn` and the command `smpgnn`; Ctrl-C is handled before anything is imported."""

from smpgnn.cli.interrupts import importing


def main() -> None:
    """The command line; see `smpgnn.cli.main`."""
    with importing():
        from smpgnn.cli.main import main as run

        run()


if __name__ == "__main__":
    main()
