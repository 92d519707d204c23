"""A self-signed TLS certificate for 127.0.0.1, made by openssl."""

import shutil
import subprocess
from pathlib import Path

import pytest


def make_certificate(folder: Path, password: str = "") -> tuple[Path, Path]:
    """A certificate and its private key in `folder`. Skips the test where openssl is not installed."""
    if not shutil.which("openssl"):
        pytest.skip("needs the command openssl")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    encryption = ["-passout", f"pass:{password}"] if password else ["-nodes"]
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-days", "2", *subject, *files, *encryption],
        check=True,
        capture_output=True,
    )
    return certificate, key
