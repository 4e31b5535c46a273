"""What a page may not reach: other ports of this machine, and its files."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.rendering.conftest import LOOPBACK, RendererPort, RequestRefused, ScriptedSite

pytestmark = pytest.mark.browser

ATTACK = """<!DOCTYPE html><body><p>there</p><script>
const at = "{host}:{port}", http = "http://" + at;
const posted = {{method: "POST", mode: "no-cors", body: "FLUSHALL\\r\\n"}};
fetch(http + "/fetched", posted).catch(() => 0);
new Image().src = http + "/image";
for (const [name, key, path] of [["iframe", "src", "/frame"], ["script", "src", "/script"],
                                 ["link", "href", "/style"], ["object", "data", "/object"]]) {{
    const each = document.createElement(name);
    if (name == "link") each.rel = "stylesheet";
    each[key] = http + path;
    document.body.append(each);
}}
new WebSocket("ws://" + at + "/socket");
new EventSource(http + "/events");
navigator.sendBeacon(http + "/beacon", "beacon");
const work = `fetch("${{http}}/worker", {{mode: "no-cors"}}).catch(() => 0)`;
new Worker(URL.createObjectURL(new Blob([work])));
window.open(http + "/window");
fetch("/leads", {{mode: "no-cors"}}).catch(() => 0);
const turn = {{urls: ["turn:" + at + "?transport=tcp", "turn:" + at, "stun:" + at],
               username: "a", credential: "b"}};
const link = new RTCPeerConnection({{iceServers: [turn]}});
link.createDataChannel("x");
link.createOffer().then(offer => link.setLocalDescription(offer));
</script></body>"""


@dataclass
class ClusterPort:
    """A port such as Redis has: who connects and sends something is noted."""

    port: int = 0
    heard: list[bytes] = field(default_factory=list)


@pytest.fixture
def cluster_port() -> Iterator[ClusterPort]:
    noted = ClusterPort()
    with (
        socket.create_server((LOOPBACK, 0)) as stream,
        socket.socket(type=socket.SOCK_DGRAM) as packets,
    ):
        noted.port = stream.getsockname()[1]
        packets.bind((LOOPBACK, noted.port))

        def listen() -> None:
            with suppress(OSError):
                while True:
                    link, _ = stream.accept()
                    with link:
                        link.settimeout(5)
                        with suppress(OSError):
                            noted.heard.append(link.recv(1000))

        def receive() -> None:
            with suppress(OSError):
                while True:
                    noted.heard.append(b"packet " + packets.recv(1000))

        threads = [threading.Thread(target=each, daemon=True) for each in (listen, receive)]
        for each in threads:
            each.start()
        yield noted
        stream.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            packets.shutdown(socket.SHUT_RDWR)
        for each in threads:
            each.join(10)


@pytest.mark.parametrize("host", [LOOPBACK, "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"])  # noqa: S104
def test_a_page_of_a_test_site_reaches_no_other_port_here(
    renderer: RendererPort, site: ScriptedSite, cluster_port: ClusterPort, host: str
) -> None:
    attack = ATTACK.format(host=host, port=cluster_port.port)
    leads = {"Location": f"http://{host}:{cluster_port.port}/led"}
    site.page("/leads", "", 302, **leads)
    page = renderer.render(site.page("/attack", attack))
    assert page["status_code"] == 200
    assert "<p>there</p>" in page["content"]
    assert cluster_port.heard == []


@pytest.mark.usefixtures("long_quiet")
def test_the_attack_is_one(
    open_renderer: RendererPort, site: ScriptedSite, cluster_port: ClusterPort
) -> None:
    attack = ATTACK.format(host=LOOPBACK, port=cluster_port.port)
    site.page("/leads", "", 302, Location=f"http://{LOOPBACK}:{cluster_port.port}/led")
    open_renderer.render(site.page("/attack", attack))
    told = b"".join(cluster_port.heard)
    for path in ("fetched", "image", "frame", "script", "style", "socket", "worker", "led"):
        assert f" /{path} ".encode() in told, path
    assert b"FLUSHALL" in told


@pytest.mark.parametrize(
    "leading",
    [
        "<script>location = '{url}'</script>",
        "<meta http-equiv=refresh content='0;url={url}'>",
        "<form action='{url}' method=post></form><script>document.forms[0].submit()</script>",
    ],
)
def test_a_page_cannot_lead_to_another_port_here(
    renderer: RendererPort, site: ScriptedSite, cluster_port: ClusterPort, leading: str
) -> None:
    url = f"http://{LOOPBACK}:{cluster_port.port}/"
    renderer.render(site.page("/", leading.format(url=url)))
    assert cluster_port.heard == []


def test_a_redirect_to_another_port_here_fails_and_says_why(
    renderer: RendererPort, site: ScriptedSite, cluster_port: ClusterPort
) -> None:
    url = f"http://{LOOPBACK}:{cluster_port.port}/"
    page = renderer.render(site.page("/", "", 302, Location=url))
    assert page["status_code"] == 599
    assert page["error"].endswith("is not public, and not what the script asked for")
    assert cluster_port.heard == []


def test_a_forbidden_network_is_not_reached_even_if_a_script_asks_for_it(
    renderer: RendererPort,
) -> None:
    page = renderer.render("http://169.254.169.254/latest/")
    assert page["status_code"] == 599
    assert page["error"].endswith("169.254.169.254 is in forbidden_networks")


@pytest.mark.parametrize(
    "url", ["file://{}", "view-source:file://{}", "chrome://version", "http://"]
)
def test_what_is_no_page_of_the_web_is_refused(
    renderer: RendererPort, tmp_path: Path, url: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    with pytest.raises(RequestRefused, match=r"400 .*(only http: and https: are|it is no URL)"):
        renderer.render(url.format(secret))


def test_a_page_reads_no_file(renderer: RendererPort, site: ScriptedSite, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    text = f"""<iframe src="file://{secret}"></iframe><object data="file://{secret}"></object>
    <script>fetch("file://{secret}").then(a => a.text()).then(t => document.write(t));
    setTimeout(() => location = "file://{secret}", 300)</script>"""
    script = "() => [...frames].map(f => { try { return f.document.body.innerHTML } catch { } })"
    page = renderer.render(site.page("/", text), js_script=script)
    assert "a secret" not in str(page)
    assert page["url"] == f"{site.url}/"


@pytest.mark.parametrize("header", ["Origin", "Sec-Fetch-Site"])
def test_a_page_in_somebodys_browser_is_given_none(
    renderer: RendererPort, site: ScriptedSite, header: str
) -> None:
    with pytest.raises(RequestRefused, match="403"):
        renderer.post({"url": site.page("/", "")}, **{header: "http://evil.example"})
    assert site.asked == []
