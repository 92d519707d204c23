"""Uploads a folder to a repository of the Hub."""

from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, HTTPError

from hub.client import Hub
from inference.errors import BadRequest, error_line


def push_folder(hub: Hub, repo: str, folder: Path, *, is_private: bool) -> str:
    """Create the repository if it does not exist, and upload the files. Returns its URL.

    Raises BadRequest if the Hub refuses, with its reason.
    """
    api = HfApi(endpoint=hub.endpoint, token=hub.auth_token, library_name="hearth")
    try:
        api.create_repo(repo, private=is_private, exist_ok=True)
        api.upload_folder(repo_id=repo, folder_path=folder, commit_message="Upload a fine-tuned model")
    except (HfHubHTTPError, HTTPError, ValueError) as error:
        raise BadRequest("push", f"to {repo} failed: {error_line(error)}") from None
    return f"{hub.endpoint}/{repo}"
