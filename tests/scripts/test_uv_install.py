"""What uv is told of pip's configuration."""

from scripts.uv_install import LIKE_PIP, parse_settings, translate

PRINTED = r"""
:env:.cert='/own.pem'
:env:.disable-pip-version-check='1'
global.cert='/global.pem'
global.extra-index-url='file:///one/simple file:///two/simple'
global.find-links='\n/wheels\nhttps://host/wheels'
install.find-links='/wheels /others'
"""


def test_the_settings_of_pip_are_uvs_variables() -> None:
    assert translate(parse_settings(PRINTED.strip())) == {
        **LIKE_PIP,
        "SSL_CERT_FILE": "/own.pem",
        "UV_INDEX": "file:///one/simple file:///two/simple",
        "UV_FIND_LINKS": "/wheels,/others",
    }


def test_a_setting_that_uv_does_not_know_is_left_to_pip() -> None:
    assert translate({"find-links": "/wheels", "no-binary": ":all:"}) is None
