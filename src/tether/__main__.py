"""The door to the command line, which may not be installed."""

import sys


def main() -> None:
    """Run the command line, or say what it lacks."""
    try:
        from tether.cli.app import app
    except ModuleNotFoundError as error:
        sys.exit(f"the command line needs {error.name}: pip install 'tether[cli]'")
    app()


if __name__ == "__main__":
    main()
