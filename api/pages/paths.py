"""The paths of pages, each spelled once."""

HOME = "/"
SIGN_IN = "/sign-in"
PROVIDER = "/oidc/sign-in"
CALLBACK = "/oidc/redirect"
INVITATION = "/invitation"
ACCOUNT = "/account"
KEYS = "/account/keys"
REVOKE = "/account/keys/revoke"
PASSWORD = "/account/password"  # noqa: S105 - a path
SIGN_OUT = "/sign-out"
SIGNED_OUT = "/signed-out"
NOTIFICATIONS = "/docs/notifications"  # what each type means: notifications lead there
STYLE = "/assets/style.css"
ICON = "/assets/icon.svg"
FAVICON = "/favicon.ico"
REDOC = "/assets/redoc.js"
REFERENCE = "/docs"  # every operation of the interface
REFERENCE_FOLDER = "/docs/"  # as people type it; it leads there
