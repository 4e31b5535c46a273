"""The images of a run: a base of Debian, made here, and what `deploy/Dockerfile` makes of it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docker import DockerClient
from docker.errors import ImageNotFound

from pyspider_zk import __version__
from pyspider_zk.errors import MissingService

ROOT = Path(__file__).resolve().parents[2]
SUITE = "bookworm"
BASE = f"pyspider-zk-base:{SUITE}"
SERVERS = ("zookeeper", "redis", "postgresql", "prometheus")
AUTHORITIES = Path(os.environ.get("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"))
"""Whom this machine trusts, a proxy of its own included; only the builder sees them."""

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
"""What a build may know, and its image does not keep."""

NO_BASE = "debootstrap is missing; Debian: apt install debootstrap; or name an image: --base"
NO_BUILDKIT = "no docker program builds with BuildKit; Debian: apt install docker.io"


def make_base(engine: DockerClient) -> str:
    """Return the base image; made by debootstrap unless the engine has it: no registry is asked.

    Raises:
        MissingService: there is no debootstrap.
    """
    try:
        engine.images.get(BASE)
    except ImageNotFound:
        with tempfile.TemporaryDirectory(prefix="pyspider-zk-base-") as folder:
            _bootstrap(Path(folder))
            with _packed(Path(folder)) as archive:
                engine.api.import_image_from_stream(archive, *BASE.split(":"))
    return BASE


def build(url: str, base: str, tag: str, source: Path = ROOT) -> None:
    """Build the images of pyspider-zk from a checkout, that with a browser included."""
    _build(url, base, source, "pyspider-zk", f"pyspider-zk:{tag}")
    _build(url, base, source, "renderer", f"pyspider-zk-renderer:{tag}")


def build_servers(url: str, base: str, tag: str) -> None:
    """Build the images of the servers."""
    for server in SERVERS:
        _build(url, base, ROOT, server, f"pyspider-zk-{server}:{tag}")


@contextmanager
def other_version(version: str) -> Iterator[Path]:
    """Give a copy of what the image is made of that says it is another version."""
    with tempfile.TemporaryDirectory(prefix="pyspider-zk-version-") as folder:
        copy = Path(folder)
        for name in ("deploy", "patches", "pyspider_zk", "requirements"):
            shutil.copytree(ROOT / name, copy / name)
        shutil.copy(ROOT / "pyproject.toml", copy)
        for name in ("setup.py", "pyspider_zk/__init__.py"):
            said = (ROOT / name).read_text(encoding="utf-8")
            told = said.replace(f'"{__version__}"', f'"{version}"')
            (copy / name).write_text(told, encoding="utf-8")
        yield copy


def _bootstrap(folder: Path) -> None:
    if shutil.which("debootstrap") is None:
        raise MissingService(NO_BASE)
    # It mounts /proc there, and its processes outlive it: in namespaces they end with it.
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    command = [*apart, "debootstrap", "--variant=minbase", SUITE, str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for cache in ("var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(folder / cache)
        (folder / cache).mkdir()


@contextmanager
def _packed(folder: Path) -> Iterator[object]:
    command = ["tar", "--directory", str(folder), "--create", "."]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as tar:
        yield tar.stdout


def _build(url: str, base: str, source: Path, target: str, tag: str) -> None:
    command = [
        *(_docker(), "build", "--quiet", "--file", "deploy/Dockerfile", "--target", target),
        *("--build-arg", f"BASE={base}", "--secret", f"id=ca,src={AUTHORITIES}"),
        *(f"--build-arg={name}" for name in PROXIES if name in os.environ),
        *("--tag", tag, "."),
    ]
    environ = {**os.environ, "DOCKER_HOST": url, "DOCKER_BUILDKIT": "1"}
    subprocess.run(command, cwd=source, env=environ, check=True, stdout=subprocess.DEVNULL)


def _docker() -> str:
    """Return a docker program that builds with BuildKit; some want a plugin for it.

    Raises:
        MissingService: there is none.
    """
    environ = {**os.environ, "DOCKER_BUILDKIT": "1"}
    for program in filter(None, (shutil.which("docker"), "/usr/bin/docker")):
        probe = [program, "build", "--help"]
        if subprocess.run(probe, env=environ, capture_output=True, check=False).returncode == 0:
            return program
    raise MissingService(NO_BUILDKIT)
