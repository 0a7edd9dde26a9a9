"""Which mail server sends our messages? One address says it: `EMAIL_URL`.

| EMAIL_URL                              | means                                            |
| -------------------------------------- | ------------------------------------------------ |
| `smtps://user:password@host:465`       | SMTP over TLS                                    |
| `smtp+starttls://user:password@host:587` | SMTP that changes to TLS before anything is said |
| `smtp://host:25`                       | plain SMTP, for a relay on the same machine      |
| `console:`                             | printed by the worker, for development           |
| empty                                  | no mail: deliveries by e-mail fail and say so    |
"""

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

_SMTP = "django.core.mail.backends.smtp.EmailBackend"
_PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """Django's settings for mail."""

    backend: str
    host: str = "localhost"
    port: int = 25
    user: str = ""
    password: str = field(default="", repr=False)
    use_tls: bool = False
    use_ssl: bool = False


NOT_SET = MailServer(backend="django.core.mail.backends.dummy.EmailBackend")


def mail_server(url: str) -> MailServer:
    """The server that an address names.

    Raises:
        ValueError: with a sentence that says what may stand there.
    """
    if not url:
        return NOT_SET
    parts = urlsplit(url)
    if parts.scheme == "console":
        return MailServer(backend="django.core.mail.backends.console.EmailBackend")
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(
            "EMAIL_URL names no mail server. Write smtps://user:password@host:465, smtp+starttls://user:password@host:587, "
            "smtp://host:25 or console:"
        )
    return MailServer(
        backend=_SMTP,
        host=parts.hostname,
        port=parts.port or _PORTS[parts.scheme],
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        use_tls=parts.scheme == "smtp+starttls",
        use_ssl=parts.scheme == "smtps",
    )
