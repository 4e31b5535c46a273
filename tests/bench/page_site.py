"""Site of static pages that link to each other; it costs next to nothing, for nginx serves it."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspider_zk.errors import MissingService
from tests.support.ports import LOOPBACK, own_port
from tests.support.waiting import eventually

LINKS = 20
BYTES = 12_000  # of a page
WORD = "lorem ipsum dolor sit amet "

_CONFIG = """
user root; # if root starts it: the pages are nobody else's
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off; default_type text/html; root {folder}/pages;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen {address}; }}
}}
"""


def write_page(file: Path, number: int, count: int) -> None:
    """Write one of so many pages; its links go to others of its folder, so that all are found."""
    links = [(number * LINKS + each + 1) % count for each in range(LINKS)]
    listed = "".join(f'<li><a href="{link}.html">page {link}</a></li>\n' for link in links)
    head = f"<html><head><title>page {number}</title></head><body><ul>\n{listed}</ul>\n"
    text = "".join(f"<p>{WORD * 8}</p>\n" for _ in range((BYTES - len(head)) // (8 * len(WORD))))
    file.write_text(f"{head}{text}</body></html>\n", encoding="utf-8")


@contextmanager
def page_site(folder: Path, pages: int, groups: list[str]) -> Iterator[str]:
    """Serve so many pages in each of some groups; yield the site's address.

    Page 0 of a group leads to all others, as ``http://ADDRESS/GROUP/0.html``.

    Raises:
        MissingService: there is no nginx.
    """
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        raise MissingService("nginx is missing; Debian/Ubuntu: apt install nginx-light")
    for group in groups:
        (folder / "pages" / group).mkdir(parents=True)
        for number in range(pages):
            write_page(folder / "pages" / group / f"{number}.html", number, pages)
    address = f"{LOOPBACK}:{own_port()}"
    config = folder / "nginx.conf"
    config.write_text(_CONFIG.format(folder=folder, address=address), encoding="utf-8")
    server = subprocess.Popen([program, "-c", str(config), "-e", str(folder / "error.log")])
    try:
        eventually((folder / "pid").exists, "nginx listens")
        yield address
    finally:
        server.terminate()
        server.wait()
