"""TLS contexts: trusted authorities, and our own certificate."""

import ssl

from pyspider_zk.errors import ConfigError


def client_context(ca: str, setting: str) -> ssl.SSLContext:
    """Return a context that trusts servers whose certificate is valid for the requested name.

    Args:
        ca: file of the authorities; empty: the system's.
        setting: the setting that names the file.

    Raises:
        ConfigError: it cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=ca or None)
    except OSError as error:
        raise _unusable(setting, ca, error) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def server_context(certificate: str, key: str, settings: str) -> ssl.SSLContext:
    """Return a context that presents a certificate and requires none.

    Raises:
        ConfigError: the files cannot be used.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    show(context, certificate, key, settings)
    return context


def show(context: ssl.SSLContext, certificate: str, key: str, settings: str) -> None:
    """Load the certificate in a file into a context.

    Args:
        key: file of its private key, not encrypted.
        settings: the settings that name the files.

    Raises:
        ConfigError: they cannot be used.
    """
    try:
        context.load_cert_chain(certificate, key, _no_password)
    except (OSError, ValueError) as error:
        raise _unusable(settings, f"{certificate}, {key}", error) from error


def reason(error: Exception) -> str:
    """Return a short reason why TLS failed."""
    return getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)


def _no_password() -> str:
    """Refuse an encrypted key; otherwise OpenSSL would prompt at the terminal."""
    raise ValueError("the key is encrypted, and must not be")


def _unusable(setting: str, files: str, error: Exception) -> ConfigError:
    why = getattr(error, "strerror", None) or error
    return ConfigError([f"{setting}: cannot use {files}: {why}"])
