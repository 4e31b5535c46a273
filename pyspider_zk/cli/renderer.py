"""Command ``renderer``: pages as a browser shows them."""

import functools
import os

import click

from pyspider_zk.cli.insecure import insecure_option
from pyspider_zk.cli.stock import visible
from pyspider_zk.components.wiring import current_data_path, current_settings
from pyspider_zk.listening import HIGHEST_PORT, LOOPBACK
from pyspider_zk.rendering.request import LISTENER
from pyspider_zk.rpc.admission import admission_of

PORT = 25555
"""PhantomJS' usual one."""


@click.command(params=[insecure_option("renderer")])
@click.option("--host", default=LOOPBACK, show_default=True)
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, HIGHEST_PORT))
@click.option(
    "--pages",
    default=8,
    show_default=True,
    type=click.IntRange(1),
    help="pages that are open at the same time; others wait",
)
@click.option(
    "--memory",
    default=2048,
    show_default=True,
    type=click.IntRange(256),
    help="MB of all of Chromium; beyond them the largest page fails",
)
@click.option("--chromium", default="", help="its program; default: the one of the system")
@functools.partial(visible, "renderer")
def renderer(host: str, port: int, pages: int, memory: int, chromium: str) -> None:
    """Run a renderer, for tasks with fetch_type='js'; fetchers find it by --phantomjs-proxy."""
    from pyspider_zk.rendering.chromium import chromium_program

    settings = current_settings()
    entry = admission_of(settings, LISTENER, content_type="")
    entry.listen(host)
    program = chromium_program(os.environ, chromium)
    from pyspider_zk.rendering.renderer import RendererPlan, run_renderer

    plan = RendererPlan(program, pages, memory * 2**20)
    run_renderer(plan, settings, entry, host, port, current_data_path())
