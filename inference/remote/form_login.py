"""The login of a gradio server: a form with a user's name and password, whose response has a cookie.

The cookie holds until the server restarts. Knows HTTP and no model.
"""

from urllib.parse import urlencode

import aiohttp

PATH = "/login"
TOKEN = "access-token"  # the beginning of the names of gradio's cookies
FORM_HEADERS = {"Content-Type": "application/x-www-form-urlencoded"}


async def log_in(session: aiohttp.ClientSession, url: str, login: tuple[str, str], proxy: str | None) -> str:
    """The header Cookie for further requests to the server at `url`; empty: it refuses the login.

    login: the user's name and the password. Raises aiohttp's errors.
    """
    user, password = login
    body = urlencode({"username": user, "password": password})
    async with session.post(
        f"{url}{PATH}", data=body, headers=FORM_HEADERS, allow_redirects=False, proxy=proxy
    ) as response:
        cookies = response.cookies.values() if response.status == 200 else ()
        return "; ".join(f"{each.key}={each.value}" for each in cookies if each.key.startswith(TOKEN))
