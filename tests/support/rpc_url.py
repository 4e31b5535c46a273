"""The URL with which a stock client may call a scheduler."""

from urllib.parse import quote


def rpc_url(address: str, secret: str, user: str = "ann") -> str:
    """Return it, with the secret in it; without one it is the bare address."""
    login = f"{user}:{quote(secret, safe='')}@" if secret else ""
    return f"http://{login}{address}/"
