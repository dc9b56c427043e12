"""Taking secrets out of texts."""

import base64
from urllib.parse import quote

from reconciler.git.remotes.credentials import HIDDEN, redacted, secret_forms

SECRET = b"canary-p@ss word"


def test_hides_a_secret_as_it_is_in_a_url_and_in_a_header() -> None:
    header = base64.b64encode(b"ada:" + SECRET)
    text = b"a %s b %s c %s d %s." % (SECRET, quote(SECRET, safe="").encode(), header, header.rstrip(b"="))
    assert redacted(text, secret_forms(SECRET, username="ada")) == b"a %s b %s c %s d %s." % ((HIDDEN,) * 4)


def test_hides_the_longer_of_two_secrets_of_which_one_is_in_the_other() -> None:
    assert redacted(b"canary-ab canary-a", [b"canary-a", b"canary-ab"]) == HIDDEN + b" " + HIDDEN


def test_leaves_a_text_without_secrets_as_it_is() -> None:
    assert redacted(b"fatal: no", []) == b"fatal: no"
    assert redacted(b"fatal: no", [b""]) == b"fatal: no"
