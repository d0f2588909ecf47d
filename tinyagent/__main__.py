"""The command `tinyagent`, also `python -m tinyagent`."""

import gc
import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    arguments = sys.argv[1:]
    _open_closed_streams()
    if arguments in (["--version"], ["-V"]):  # before anything is imported: scripts ask this often
        from tinyagent import __version__

        sys.stdout.write(f"tinyagent {__version__}\n")
        return
    try:
        from tinyagent.cli.app import command_line

        code = command_line(arguments)
    except KeyboardInterrupt:  # while the program was being loaded
        code = 130
    try:
        sys.stderr.flush()
    except OSError:  # a full disk: the interpreter would try again and exit with 120
        from tinyagent.cli.output import silence

        silence(sys.stderr)
    gc.freeze()  # else the interpreter looks for garbage as it ends, which takes longer than all else after a run
    # After an interrupt inside an `exec`, which dataclasses use while a module is imported, `python -m` dies of SIGINT
    # in spite of the code given (CPython's unhandled_keyboard_interrupt), unless something else is executed after it.
    exec("")
    sys.exit(code)


def _open_closed_streams() -> None:
    """Put /dev/null in place of closed standard streams, lest the next file that is opened takes their number."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
            setattr(sys, name, open(descriptor, "w" if descriptor else "r"))  # noqa: PTH123, SIM115  for good


if __name__ == "__main__":
    main()
