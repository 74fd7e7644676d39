"""The entry point of the command line, whose dependencies are optional."""

import sys


def main() -> None:
    """Run the command line, or report the missing dependency."""
    try:
        from tether.cli.app import app
    except ModuleNotFoundError as error:
        sys.exit(f"the command line needs {error.name}: pip install 'tether[cli]'")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    app()


if __name__ == "__main__":
    main()
