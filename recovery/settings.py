"""Django's settings. Everything that differs between machines comes from the environment (see .env.example)."""

import hashlib
import logging
import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import structlog
from csp.constants import NONE, SELF

from recovery.local.postgres import pointer
from recovery.mail import mail_server

BASE_DIR = Path(__file__).resolve().parent.parent
LOCAL = pointer(BASE_DIR)
"""Where the embedded PostgreSQL stands, when `make up` has made one and no DATABASE_URL is given."""


def _secret_key(database_url: str) -> str:
    """ASCERTAIN_SECRET_KEY, else one kept beside the embedded database, else one made from the database's password."""
    if given := os.environ.get("ASCERTAIN_SECRET_KEY"):
        return given
    kept = BASE_DIR / ".local" / "secret_key"
    if kept.exists():
        return kept.read_text().strip()
    if urlsplit(database_url).password:
        # The same in every process of a server: with a key each, a session of one would be refused by the next.
        return hashlib.sha256(f"ascertain sessions {database_url}".encode()).hexdigest()
    return secrets.token_urlsafe(50)


def _field_keys() -> str:
    """ASCERTAIN_FIELD_KEYS, else the key that `make up` keeps beside the embedded database; else none, and a check says so."""
    if given := os.environ.get("ASCERTAIN_FIELD_KEYS"):
        return given
    kept = BASE_DIR / ".local" / "field_key"
    return kept.read_text().strip() if kept.exists() else ""


def _database(url: str) -> dict[str, Any]:
    """A Django database from `postgresql://user:password@host:port/name?sslmode=…`."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.pop("host", parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "CONN_HEALTH_CHECKS": False,
        "OPTIONS": {
            **query,
            "pool": {"min_size": 1, "max_size": int(os.environ.get("ASCERTAIN_POOL_SIZE", "8")), "timeout": 10},
            "server_side_binding": True,
            "prepare_threshold": 5,
            "application_name": "ascertain",
        },
    }


DATABASE_URL = os.environ.get("DATABASE_URL") or (LOCAL or {}).get("app_url", "")
SECRET_KEY = _secret_key(DATABASE_URL)
DEBUG = os.environ.get("ASCERTAIN_DEBUG", "") == "true"
ALLOWED_HOSTS = os.environ.get("ASCERTAIN_ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]").split(",")
CSRF_TRUSTED_ORIGINS = [o for o in os.environ.get("ASCERTAIN_TRUSTED_ORIGINS", "").split(",") if o]

OWNER_DATABASE_URL = os.environ.get("ASCERTAIN_OWNER_DATABASE_URL") or (
    DATABASE_URL if os.environ.get("DATABASE_URL") else (LOCAL or {}).get("owner_url", "")
)
DATABASES = {
    "default": _database(DATABASE_URL or "postgresql://ascertain_app@127.0.0.1:1/ascertain"),
    "owner": _database(OWNER_DATABASE_URL or "postgresql://ascertain_owner@127.0.0.1:1/ascertain"),
}
# Migrations and table ownership belong to another role than the one that serves requests, or the
# append-only grants would prove nothing. `manage.py migrate --database owner` uses this connection.
DATABASES["owner"]["OPTIONS"].pop("pool")
DATABASES["owner"]["TEST"] = {"MIRROR": "default"}

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_htmx",
    "heroicons",
    "template_partials",
    "csp",
    "ledger",
    "recovery",
]
AUTH_USER_MODEL = "ledger.Person"
# Sessions, sign-in, CSRF and messages serve pages; the harness's path through /api skips them (recovery/web/access.py).
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "recovery.web.middleware.PagesCSP",
    "recovery.web.middleware.PagesSession",
    "recovery.web.middleware.PagesCsrf",
    "recovery.web.middleware.PagesAuthentication",
    "recovery.web.middleware.PagesMessages",
    "recovery.web.middleware.PagesHtmx",
]
ROOT_URLCONF = "recovery.urls"
WSGI_APPLICATION = "recovery.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.messages.context_processors.messages",
            ],
            "builtins": ["heroicons.templatetags.heroicons"],
        },
    }
]
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}
STATIC_URL = "static/"
STATIC_ROOT = os.environ.get("ASCERTAIN_STATIC_ROOT")
"""Where `collectstatic` puts compressed copies for production; absent: files are served from where they lie."""
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = STATIC_ROOT is None

LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/queue/"
LOGOUT_REDIRECT_URL = "/sign-in/"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = os.environ.get("ASCERTAIN_HTTPS", "") == "true"
SECURE_REFERRER_POLICY = "same-origin"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
"""Bytes; a larger body is refused with 413 before it is read."""

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    # A refusal is an answer, not news: 4xx lines would drown what matters.
    "loggers": {"django.request": {"level": "ERROR"}},
    "root": {"handlers": ["console"], "level": os.environ.get("ASCERTAIN_LOG_LEVEL", "WARNING")},
}

# One JSON object a line. Tracebacks hold no local variables: those hold tokens and payloads.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False)),
        structlog.processors.JSONRenderer(),
    ],
    wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    cache_logger_on_first_use=True,
)

ASCERTAIN_FIELD_KEYS = _field_keys()
"""Keys for what is kept encrypted, newest first, with commas (recovery/sealing.py)."""

ASCERTAIN_ADDRESS = os.environ.get("ASCERTAIN_ADDRESS", "http://127.0.0.1:8000")
"""Where people reach Ascertain: messages link there."""
ASCERTAIN_PRIVATE_DESTINATIONS = frozenset(
    host.strip() for host in os.environ.get("ASCERTAIN_PRIVATE_DESTINATIONS", "").split(",") if host.strip()
)
"""Hosts that webhooks and Apprise services may reach at private addresses; none unless named."""
ASCERTAIN_EMAIL_URL = os.environ.get("EMAIL_URL", "")
_MAIL = mail_server(ASCERTAIN_EMAIL_URL)
EMAIL_BACKEND = _MAIL.backend
EMAIL_HOST, EMAIL_PORT = _MAIL.host, _MAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _MAIL.user, _MAIL.password
EMAIL_USE_TLS, EMAIL_USE_SSL = _MAIL.use_tls, _MAIL.use_ssl
EMAIL_TIMEOUT = 5
DEFAULT_FROM_EMAIL = os.environ.get("ASCERTAIN_EMAIL_FROM", "Ascertain <ascertain@localhost>")

CELERY_BROKER_URL = os.environ.get("CELERY_BROKER_URL") or (LOCAL or {}).get("broker_url", "")
ASCERTAIN_OWNER_ADAPTERS = os.environ.get("ASCERTAIN_OWNER_ADAPTERS", "")
"""Dotted path of a module whose `register(registry)` adds or replaces owner adapters (recovery/owners/registry.py)."""
