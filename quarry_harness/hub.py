"""From what a user calls a release to the folder that holds it: a folder, a dataset of the Hugging Face hub, the demo.

The hub's own variables are honoured: HF_TOKEN, HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE. Its library is imported only for
a release of the hub.
"""

from __future__ import annotations

import errno
import re
import sys
from pathlib import Path

from quarry_harness.errors import EnvironmentProblem, InvalidInputError, QuarryError, UsageError
from quarry_harness.release import release_file_names

DEMO = "demo"
ACCEPTED = f"Accepted: a folder, hf://owner/name[@revision] (for example hf://BrokkAI/Quarry), or {DEMO}."

# hf://datasets/owner/name is how the hub's own tools write the same thing.
_HUB_REF = re.compile(r"hf://(?:datasets/)?([\w-][\w.-]*)/([\w-][\w.-]*?)(?:@([\w-][\w./-]*))?", re.ASCII)
_NETWORK_LIBRARIES = ("httpx", "httpx2", "httpcore", "requests")  # of the hub library's versions
_SNAPSHOT = re.compile(r"datasets--(.+?)--(.+)/snapshots/([0-9a-f]{40})")


def locate_release(ref: str, cache: Path | None) -> Path:
    """Returns the folder that holds the release a user named; it is downloaded where it has to be.

    ref: a folder, "hf://owner/name[@revision]", or "demo" (a folder of that name is "./demo"). cache: where downloads
    are kept, None for the hub's own cache. Raises UsageError for a ref that is none of these, EnvironmentProblem where
    the hub or the network fails, InvalidInputError where the dataset has none of a release's files.
    """
    if ref == DEMO:
        from quarry_harness import demo

        return demo.release_folder()
    if ref.startswith("hf:"):
        match = _HUB_REF.fullmatch(ref)
        if match is None or ".." in ref:
            raise UsageError(f"{ref}: this is not a dataset of the hub.", ACCEPTED)
        return _download(f"{match[1]}/{match[2]}", match[3], cache)
    folder = Path(ref).expanduser() if ref else Path()
    if ref and folder.is_dir():
        return folder
    if folder.is_file():
        raise UsageError(f"{ref}: this is a file.", f"Give the folder that holds the release: {folder.parent}")
    raise UsageError(f"{ref or '(an empty name)'}: there is no such release.", ACCEPTED)


def hub_source(folder: Path) -> tuple[str, str]:
    """Returns (dataset, commit) for a folder that `locate_release` downloaded, ("", "") for any other.

    The hub's cache keeps a commit's files under datasets--OWNER--NAME/snapshots/COMMIT, so the folder itself is the
    record of what the hub gave.
    """
    match = _SNAPSHOT.fullmatch("/".join(folder.absolute().parts[-3:]))
    return (f"{match[1]}/{match[2]}", match[3]) if match else ("", "")


def _download(dataset: str, revision: str | None, cache: Path | None) -> Path:
    what = f"hf://{dataset}{f'@{revision}' if revision else ''}"
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    except ImportError as error:
        raise EnvironmentProblem(
            f"{what}: huggingface_hub is not installed.", "Install it: pip install huggingface_hub"
        ) from error
    hide = not sys.stderr.isatty() and not are_progress_bars_disabled()
    if hide:
        disable_progress_bars()  # a log file is no place for a bar
    try:
        folder = Path(
            snapshot_download(
                dataset,
                repo_type="dataset",
                revision=revision,
                cache_dir=cache,
                allow_patterns=release_file_names(),
            )
        )
    except Exception as error:  # the network stack's errors change with the hub's version
        problem = _problem(what, error)
        if problem is None:
            raise
        raise problem from error
    finally:
        if hide:
            enable_progress_bars()
    if not folder.is_dir():
        raise InvalidInputError(f"{what}: the dataset has none of a release's files.", ACCEPTED)
    return folder


def _problem(what: str, error: Exception) -> QuarryError | None:
    """Returns what an error of the hub's library means for the user, None for one that is nobody's fault but ours."""
    from huggingface_hub import errors

    log_in = "Log in with an account that has access, or set HF_TOKEN."
    again = "Check the network, the proxy and HF_ENDPOINT, and try again; what is downloaded already is kept."
    if isinstance(error, errors.HFValidationError):
        return UsageError(f"{what}: {_one_line(error)}", ACCEPTED)
    if isinstance(error, errors.GatedRepoError):
        fact, fix = "access to this dataset must be asked for on its page", f"Then: {log_in}"
    elif isinstance(error, errors.RepositoryNotFoundError):
        fact, fix = "no such dataset, or it is private", f"Check the name. {log_in}"
    elif isinstance(error, errors.RevisionNotFoundError):
        fact, fix = "the dataset has no such revision", "Give a branch, a tag or a commit of it."
    elif isinstance(error.__cause__, errors.OfflineModeIsEnabled):
        fact = "HF_HUB_OFFLINE is set and the release is not in the cache, or not all of it"
        fix = "Unset HF_HUB_OFFLINE to download it, or give a folder."
    elif isinstance(error, errors.LocalEntryNotFoundError):
        # The library tries its cache where the network fails: the failure itself is the cause.
        fact, fix = f"the hub cannot be reached: {_one_line(error.__cause__ or error)}", again
    elif isinstance(error, errors.HfHubHTTPError):
        fact = f"the hub refused: {_one_line(error)}"
        fix = log_in if error.response.status_code in (401, 403) else again
    elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        fact, fix = "the disk is full", "Free some space, or set HF_HOME to a folder on another disk."
    elif isinstance(error, OSError) or type(error).__module__.split(".")[0] in _NETWORK_LIBRARIES:
        fact, fix = _one_line(error), again
    else:
        return None
    return EnvironmentProblem(f"{what}: {fact}.", fix)


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."
