"""What travels with a job: code and settings; no data, no runs, no caches."""

import shlex
import zipfile
from pathlib import Path

import pytest
from ray._private.runtime_env.packaging import create_package

from coordinator.protocol.errors import InputError
from scenarios import PACKAGES, runtime
from scenarios.backends.sending import check_folder, entrypoint, environment, left_out, run_folders, secrets_warning

ROOT = Path(__file__).parents[3]
KEPT = {".gitignore", "mypolicy.py", "small.toml", "notes/plan.md"}
LEFT = {
    "ratings.csv", "ml.zip", "u.data", "in/r.parquet", "x.npz", "runs/a/result.json", "first/versions.json",
    "first/items.txt", "half/rounds/scenario.json", "swept/rounds/scenario.json", "swept/table.md", ".git/config",
    ".venv/lib/x.py", "__pycache__/a.pyc", "k.nbi", ".mypy_cache/a.json", "secret.txt", "in/kept-out.md",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with all kinds of files."""
    for name in (KEPT - {".gitignore"}) | LEFT:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text("secret.txt\nin/kept-out.md\n")
    return tmp_path


def sent_with(folder: Path, package: Path) -> set[str]:
    """The files of a working directory that are sent, as Ray itself packs them."""
    described = environment(folder)
    create_package(described["working_dir"], package, include_gitignore=True, excludes=described["excludes"])
    with zipfile.ZipFile(package) as held:
        return {name for name in held.namelist() if not name.endswith("/")}


def test_code_and_settings_travel_and_nothing_else(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert sent_with(folder, tmp_path_factory.mktemp("package") / "sent.zip") == KEPT


SECRETS = {
    ".env", ".env.local", "prod.env", "in/.ENV", "server.pem", "in/deep/Server.KEY", "id_rsa", "id_ed25519.pub",
    "a.p12", "b.pfx", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".aws/config", ".ssh/known_hosts",
    ".kube/config", "in/.docker/config.json", "blindrec-token", "API_TOKEN.txt", "my secret.toml",
    "in/[old] secrets!.py", "credentials.json", "db-password", "harmless.txt",
}  # fmt: skip


def test_keys_and_tokens_never_travel_and_are_named(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A link to a key is one, too."""
    for name in SECRETS - {"harmless.txt"}:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (folder / "harmless.txt").symlink_to(folder / ".ssh" / "known_hosts")
    (folder / ".gitignore").write_text("!.env\n!*.pem\n")
    sent = sent_with(folder, tmp_path_factory.mktemp("package") / "sent.zip")
    assert not sent & SECRETS
    assert sent >= KEPT
    folders = {"in/.docker", ".aws", ".ssh", ".kube"}
    named = {path.as_posix() for path in left_out(folder)} - {"secret.txt"}
    assert named == {name for name in SECRETS if not any(name.startswith(f"{one}/") for one in folders)} | folders
    line = secrets_warning(left_out(folder))
    assert ".aws, .env, .env.local" in line
    assert line.endswith(f"and {len(left_out(folder)) - 5} more; rename what the job needs")
    assert secrets_warning([]) == ""


def test_blindrecs_own_code_goes_along_where_the_folder_does_not_hold_it(folder: Path) -> None:
    assert [Path(one).name for one in environment(folder)["py_modules"]] == list(PACKAGES)
    assert all((Path(one) / "__init__.py").is_file() for one in environment(folder)["py_modules"])
    assert "py_modules" not in environment(ROOT)


def test_no_exclusion_touches_blindrecs_code(tmp_path: Path) -> None:
    for name in PACKAGES:
        package = tmp_path / f"{name}.zip"
        excludes = environment(ROOT)["excludes"]
        create_package(str(ROOT / name), package, include_gitignore=True, include_parent_dir=True, excludes=excludes)
        with zipfile.ZipFile(package) as held:
            sent = {one for one in held.namelist() if one.endswith((".py", ".toml"))}
        assert sent == {
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / name).rglob("*.[pt][yo]*")
            if path.suffix in (".py", ".toml")
        }


def test_runs_and_sweeps_are_found_wherever_they_are(folder: Path) -> None:
    assert {run.name for run in run_folders(folder)} == {"first", "half", "swept"}


def test_a_home_is_not_sent_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for whole in (tmp_path, Path("/")):
        with pytest.raises(InputError, match="would be sent whole; submit from a folder of its own"):
            check_folder(whole)
    check_folder(ROOT)


def test_a_job_runs_the_command_word_for_word() -> None:
    words = ["run", "--like", "0.9,0.2;0.6,0.1", "--columns", "a b,c,$d"]
    first, *_, version = shlex.split(entrypoint(words))[:5]
    assert (first, version) == ("exec", runtime())
    assert shlex.split(entrypoint(words))[5:] == words
