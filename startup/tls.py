"""The TLS certificate of SSL_CERTFILE: whether it can be served, before a model is loaded."""

import ssl

from settings.schema import BadSetting, Settings


def check_tls(settings: Settings) -> None:
    """Raise BadSetting if the TLS certificate cannot be served: better now than once the model is loaded."""
    if not settings.ssl_certfile:
        return
    try:
        check_certificate(settings.ssl_certfile, settings.ssl_keyfile)
    except OSError as error:
        names = f"SSL_CERTFILE={settings.ssl_certfile}" + (
            f", SSL_KEYFILE={settings.ssl_keyfile}" if settings.ssl_keyfile else ""
        )
        rule = "must be PEM files of a certificate and its private key, which has no password"
        raise BadSetting(f"{names}: {rule}: {error.strerror or error}") from None


def check_certificate(certfile: str, keyfile: str) -> None:
    """Raise OSError if the certificate, or its private key, cannot be read, or the key belongs to another."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certfile, keyfile or None, password=lambda: "")  # "": never ask on the terminal
