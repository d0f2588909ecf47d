"""The command `tinyagent`, also `python -m tinyagent`."""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):  # before anything is imported: scripts ask this often
        from tinyagent import __version__

        sys.stdout.write(f"tinyagent {__version__}\n")
        return
    from tinyagent.cli.app import command_line

    sys.exit(command_line(arguments))


if __name__ == "__main__":
    main()
