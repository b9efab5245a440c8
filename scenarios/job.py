"""The cluster's side of a submission, ``python -m scenarios.job VERSION COMMAND ...``: checks, runs, logs results."""

import os
import platform
import signal
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

BAD_INPUT = 2


def main(version: str, arguments: list[str]) -> NoReturn:
    """Run a command of blindrec as a Ray job, and end with its exit code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what stops a job; ignored where a script started Ray
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version != mine:
        _refuse(f"the cluster runs Python {mine}, the submitting machine {version}; use the same on both")
    from coordinator.protocol.errors import InputError  # noqa: PLC0415 (a Python of another version cannot read it)
    from scenarios.cli import command_line  # noqa: PLC0415 (as above)
    from scenarios.cli import main as run  # noqa: PLC0415 (as above)
    from scenarios.cluster.job_log import send_result  # noqa: PLC0415 (as above)
    from scenarios.cluster.job_request import check_request, parsed  # noqa: PLC0415 (as above)
    from scenarios.experiment.progress import JobLogHandler  # noqa: PLC0415 (as above)
    from scenarios.log import listening  # noqa: PLC0415 (as above)

    tree = command_line()
    try:
        data = check_request(tree, arguments, Path.cwd()).data
    except InputError as error:
        _refuse(str(error))
    for path in data:
        if not Path(path).exists():
            _refuse(
                f"{path} is not on the cluster (node {platform.node()}), and data is not sent; place the file there, "
                "under the same path"
            )
    if "json" not in parsed(tree, arguments):  # a command without a result
        run(arguments)
    with tempfile.TemporaryDirectory() as folder, listening(JobLogHandler()):
        result = Path(folder) / "result.json"
        try:
            run([*arguments, "--json", str(result)])
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            if result.exists():  # each line of it goes into the log in one piece
                send_result(result.read_bytes(), lambda line: os.write(1, f"{line}\n".encode()))


def _refuse(line: str) -> NoReturn:
    sys.stderr.write(f"blindrec: {line}\n")
    sys.exit(BAD_INPUT)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
