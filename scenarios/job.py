"""The cluster's side of a submission, ``python -m scenarios.job VERSION COMMAND ...``: checks, runs, logs results."""

import os
import platform
import signal
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from scenarios import runtime

BAD_INPUT = 2


def main(version: str, arguments: list[str]) -> NoReturn:
    """Run a command of blindrec as a Ray job, or send a folder of this node, and end with its exit code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what stops a job; ignored where a script started Ray
    if version != runtime():
        _refuse(f"the cluster runs {runtime()}, the submitting machine {version}; use the same on both")
    from coordinator.protocol.errors import InputError  # noqa: PLC0415 (a Python of another version cannot read it)
    from scenarios.cli import command_line  # noqa: PLC0415 (as above)
    from scenarios.cli import main as run  # noqa: PLC0415 (as above)
    from scenarios.cluster.job_log import SEND, packed_folder, result_line  # noqa: PLC0415 (as above)
    from scenarios.cluster.job_request import check_request, parsed  # noqa: PLC0415 (as above)
    from scenarios.experiment.progress import JobLogHandler  # noqa: PLC0415 (as above)
    from scenarios.log import listening  # noqa: PLC0415 (as above)

    def send(content: bytes) -> None:
        """Write content into the log, in one piece."""
        os.write(1, f"{result_line(content)}\n".encode())

    tree = command_line()
    try:
        if arguments[0] == SEND:
            folder = Path(arguments[1])
            if not folder.is_dir():
                _refuse(f"there is no folder {folder} on node {platform.node()}")
            send(packed_folder(folder))
            sys.exit(0)
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
    with tempfile.TemporaryDirectory() as temporary, listening(JobLogHandler()):
        result = Path(temporary) / "result.json"
        try:
            run([*arguments, "--json", str(result)])
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            if result.exists():
                send(result.read_bytes())


def _refuse(line: str) -> NoReturn:
    sys.stderr.write(f"blindrec: {line}\n")
    sys.exit(BAD_INPUT)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
