"""A provider that is down, slow, broken, or another one, as people and the operator see it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import daemons
from tests.api.pages import worlds
from tests.api.pages.browsers import Browser, Seen
from tests.api.pages.worlds import World
from tests.auth.oidc import hostile
from tests.auth.oidc.hostile import Answer, Provider
from tests.daemons import Daemon

ASK = "Tell whoever runs this service: its log has the cause under the id "
AWAY = "The provider that signs people in does not answer at this moment; try again."
UNFIT = "The provider cannot be used."


def unfit(seen: Seen, status: int, sentence: str) -> str:
    """A page that says whom to tell, and nothing else; the id that it gives."""
    said, asking = seen.page.words("p")[:2]
    assert (seen.status, said) == (status, sentence), seen
    assert asking.startswith(ASK)
    return asking.removeprefix(ASK).removesuffix(".")


def logged(world: World, request: str) -> list[str]:
    """Return what the log says of a request."""
    return [str(line["message"]) for line in world.daemon.lines() if line.get("request") == request]


def _stopped(provider: Provider) -> None:
    provider.stop()


def _discovery(answer: Answer) -> Callable[[Provider], None]:
    def set_up(provider: Provider) -> None:
        provider.behaviour.answers["discovery"] = answer

    return set_up


def _document(**changes: object) -> Callable[[Provider], None]:
    def set_up(provider: Provider) -> None:
        provider.behaviour.document = changes

    return set_up


@pytest.mark.parametrize(
    ("set_up", "status", "sentence"),
    [
        pytest.param(_stopped, 503, AWAY, id="down"),
        pytest.param(_discovery(hostile.failing()), 503, AWAY, id="answers 500", marks=pytest.mark.slow),
        pytest.param(_discovery(hostile.html()), 503, AWAY, id="answers with a page", marks=pytest.mark.slow),
        pytest.param(_document(issuer="https://evil.example"), 500, UNFIT, id="another one"),
        pytest.param(
            _document(id_token_signing_alg_values_supported=["HS256", "none"]),
            500,
            UNFIT,
            id="offers nothing safe",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_provider_that_cannot_be_used_warns_at_the_start_and_is_told_of_on_the_page(
    set_up: Callable[[Provider], None], status: int, sentence: str, folder: Path
) -> None:
    with hostile.providing() as provider:
        provider.published()
        set_up(provider)
        with daemons.running(folder / "daemon", settings={"auth": worlds.auth(provider)}) as daemon:
            world = World(daemon, provider)
            daemons.until(
                lambda: (
                    any(one.startswith("Nobody can sign in at this moment: ") for one in daemon.complaints()) or None
                ),
                "the start warns",
            )
            assert daemon.get("/readyz").status == 200  # keys work all the same
            request = unfit(Browser(daemon).get("/account"), status, sentence)
            assert len(logged(world, request)) == 1
            if set_up is _stopped:
                provider.start()
                daemons.until(lambda: Browser(daemon).get("/account").status == 303 or None, "the provider is back")
                assert Browser(daemon).sign_in().status == 200


def _warned(daemon: Daemon) -> bool:
    return any(one.startswith("Nobody can sign in at this moment: ") for one in daemon.complaints())


@pytest.mark.parametrize(
    ("answer", "status", "sentence"),
    [
        pytest.param(hostile.failing(), 503, AWAY, id="500"),
        pytest.param(hostile.html(), 503, AWAY, id="a page"),
        pytest.param(Answer(cut=True, body=b"{}"), 503, AWAY, id="cut off"),
        pytest.param(hostile.large(10 << 20), 503, AWAY, id="ten megabytes"),
        pytest.param(Answer(silent=True), 503, AWAY, id="silent", marks=pytest.mark.slow),  # 10 s, its limit
        pytest.param(Answer(trickling=True), 503, AWAY, id="a byte at a time", marks=pytest.mark.slow),
    ],
)
def test_a_provider_that_fails_on_the_way_back_is_told_of_and_the_next_sign_in_works(
    world: World, answer: Answer, status: int, sentence: str
) -> None:
    browser = world.as_("unlucky", service_projects="default")
    world.provider.behaviour.answers["token"] = answer
    request = unfit(browser.sign_in(), status, sentence)
    assert len(logged(world, request)) == 1
    assert browser.jar == {}
    del world.provider.behaviour.answers["token"]
    assert browser.sign_in().status == 200


def test_new_keys_of_the_provider_need_no_restart(world: World) -> None:
    assert world.as_("rotated", service_projects="default").sign_in().status == 200
    world.provider.rotate()
    world.provider.published()
    assert world.as_("rotated", service_projects="default").sign_in().status == 200


def test_a_provider_or_a_person_that_says_no_is_told_in_their_words_without_markup(world: World) -> None:
    browser = world.as_("unwilling")
    world.provider.behaviour.redirect = {
        "code": hostile.GONE,
        "error": "access_denied",
        "error_description": "<script>alert(1)</script>\x1b[31m",
    }
    seen = browser.sign_in()
    assert (seen.status, seen.page.words("h1")) == (403, ["You are not signed in"])
    assert "<script" not in seen.body
    assert "\x1b" not in seen.body
    assert browser.jar == {}
    request = seen.header("x-request-id")
    assert logged(world, request) == [
        r"The provider signed nobody in: access_denied: <script>alert(1)</script>\x1b[31m"
    ]


def test_what_a_provider_says_without_end_is_cut_off_in_the_log(world: World) -> None:
    browser = world.as_("unwilling")
    world.provider.behaviour.redirect = {"code": hostile.GONE, "error": "no", "error_description": "x" * 900}
    request = browser.sign_in().header("x-request-id")
    assert logged(world, request) == [f"The provider signed nobody in: no: {'x' * 200}..."]


def test_a_sign_in_that_a_browser_does_not_know_is_in_the_log_with_its_likely_cause(world: World) -> None:
    browser = world.as_("elsewhere")
    seen = world.browser().get(browser.come_back(browser.get("/account")))
    assert seen.status == 401
    [line] = logged(world, seen.header("x-request-id"))
    assert line.startswith("Somebody came back from the provider to a sign-in that their browser does not know: ")
    assert line.endswith(
        f"people come by another address than webURL ({world.web_url}), or their browsers keep no cookies."
    )
