"""Servers that want a login or speak TLS, and certificates for them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

from pyspider_zk.local.programs import SYSTEM_JARS
from pyspider_zk.local.services import RedisServer, ZooKeeperServer
from tests.support.ports import own_port

NAME = "localhost"
PROVIDER = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
NETTY = "org.apache.zookeeper.server.NettyServerCnxnFactory"


class SpecialZooKeeper(ZooKeeperServer):
    """A ZooKeeper with more lines in zoo.cfg and more system properties."""

    def __init__(
        self, folder: Path, config: Mapping[str, object], properties: Mapping[str, object]
    ) -> None:
        super().__init__(folder)
        self._config = config
        self._properties = properties

    def _command(self, port: int) -> list[str]:
        java, *rest = super()._command(port)
        jars = rest.index("-cp") + 1
        more = [str(SYSTEM_JARS / f"netty-{part}.jar") for part in ("codec", "resolver")]
        rest[jars] = os.pathsep.join([rest[jars], *more])  # what Debian's jar forgets to name
        lines = "".join(f"{name}={value}\n" for name, value in self._config.items())
        with (self.folder / "zoo.cfg").open("a", encoding="utf-8") as file:
            file.write(lines)
        return [java, *(f"-D{name}={value}" for name, value in self._properties.items()), *rest]


class SpecialRedis(RedisServer):
    """A Redis with more options."""

    def __init__(self, folder: Path, options: Mapping[str, object], password: str = "") -> None:
        super().__init__(folder, password=password)
        self._options = options

    def _command(self, port: int) -> list[str]:
        more = [word for name, value in self._options.items() for word in (f"--{name}", str(value))]
        return [*super()._command(port), *more]


def sasl_zookeeper(folder: Path, users: Mapping[str, str]) -> SpecialZooKeeper:
    """Make a ZooKeeper with these users, which shuts everybody else out."""
    jaas = folder / "jaas.conf"
    entries = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    jaas.write_text(f"Server {{ {module} required {entries}; }};\n", encoding="utf-8")
    return SpecialZooKeeper(
        folder,
        {"authProvider.1": PROVIDER, "sessionRequireClientSASLAuth": "true"},
        {"java.security.auth.login.config": jaas},
    )


@dataclass(frozen=True)
class Authority:
    """A certificate authority, and what it signed: files of PEM.

    Attributes:
        ca: the authority's certificate.
        server: a server's certificate and key, for the name ``localhost`` only.
        certificate: a client's certificate.
        key: its key.
    """

    ca: Path
    server: Path
    certificate: Path
    key: Path


def authority(folder: Path) -> Authority:
    made = trustme.CA()
    server, client = made.issue_cert(NAME), made.issue_cert("crawl@example.org")
    files = Authority(
        *(folder / f"{name}.pem" for name in ("ca", "server", "client", "client-key"))
    )
    made.cert_pem.write_to_path(str(files.ca))
    client.cert_chain_pems[0].write_to_path(str(files.certificate))
    files.key.write_bytes(client.private_key_pem.bytes())
    files.server.write_bytes(private_key(server).encode() + server.cert_chain_pems[0].bytes())
    return files


def private_key(made: trustme.LeafCert) -> str:
    """Return the private key in the one form that ZooKeeper reads."""
    key = serialization.load_pem_private_key(made.private_key_pem.bytes(), None)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    return key.private_bytes(*form, serialization.NoEncryption()).decode()


@contextmanager
def tls_zookeeper(folder: Path, authority: Authority, wants: str = "none") -> Iterator[str]:
    """Run a ZooKeeper; give where it speaks TLS, by name. It `wants` a client's certificate."""
    port = own_port()
    config = {
        "secureClientPort": port,
        "serverCnxnFactory": NETTY,
        "ssl.keyStore.location": authority.server,
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": authority.ca,
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": wants,
    }
    with SpecialZooKeeper(folder, config, {}):
        yield f"{NAME}:{port}"


@contextmanager
def tls_redis(folder: Path, authority: Authority) -> Iterator[tuple[SpecialRedis, str]]:
    """Run a Redis; give it, and where it speaks TLS, by name."""
    port = own_port()
    with SpecialRedis(folder, tls_options(port, authority)) as server:
        yield server, f"{NAME}:{port}"


def tls_options(port: int, authority: Authority) -> dict[str, object]:
    """Return the options with which a Redis speaks TLS on a port."""
    return {
        "tls-port": port,
        "tls-cert-file": authority.server,
        "tls-key-file": authority.server,
        "tls-ca-cert-file": authority.ca,
        "tls-auth-clients": "no",
    }
