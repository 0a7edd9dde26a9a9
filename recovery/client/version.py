"""The client's name and version, as it tells them to servers."""

VERSION = "0.1.0"
USER_AGENT = f"ascertain-client/{VERSION}"
