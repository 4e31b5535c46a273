"""Rules about secrets: which are easily guessed. Pure; no finding repeats one."""

from collections.abc import Iterator, Mapping

from pyspider_zk.doctor.findings import Finding, ok, warning

SHORTEST = 12  # characters of a password that machines use
FEWEST = 5  # different characters
WELL_KNOWN = frozenset(
    {
        *("admin", "changeme", "default", "guest", "letmein", "password", "root", "secret", "test"),
        *("crawl", "mysql", "postgres", "postgresql", "pyspider", "redis", "zookeeper"),
    }
)


def secret_findings(secrets: Mapping[str, str]) -> Iterator[Finding]:
    """Judge secrets, given by what they are for; empty ones are none."""
    used = {what: secret for what, secret in secrets.items() if secret}
    weak = {what: fault for what, secret in used.items() if (fault := _weakness(secret))}
    for what, fault in weak.items():
        yield warning(f"{what} {fault}", "make another one: `openssl rand -hex 32`")
    if used and not weak:
        yield ok(f"{len(used)} secrets, none of them easily guessed")


def _weakness(secret: str) -> str:
    """Return why a secret is easily guessed; empty if it is not."""
    if secret.lower().strip("0123456789!") in WELL_KNOWN:
        return "is a well-known one"
    if len(secret) < SHORTEST:
        return f"has less than {SHORTEST} characters"
    return f"has less than {FEWEST} different characters" if len(set(secret)) < FEWEST else ""
