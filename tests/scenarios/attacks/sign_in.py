"""Attacks on sign-in through a provider: what the provider, a browser or another site may try.

Each row says what the attacker gets to read: the status and the page's words, or the error of the interface.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from joserfc import jwk

from tests.api.pages.browsers import FORM, WEB_URL, Browser, Seen
from tests.api.pages.worlds import World
from tests.auth.oidc import hostile
from tests.auth.oidc.hostile import GONE

Attempt: TypeAlias = Callable[[World], Seen]

EVIL = "https://evil.example"
HOUR = 3_600
NOT_SIGNED_IN = "401 You are not signed in"


@dataclass(frozen=True, slots=True)
class Attack:
    """One attempt, and how what the attacker reads begins."""

    name: str
    attempt: Attempt
    answer: str


# What the provider says, or somebody in its place


def told(**id_token: object) -> Attempt:
    """An ID token with other claims; a function is given the present one."""

    def attempt(world: World) -> Seen:
        browser = world.as_("mallory", service_projects="default")

        def write(header: dict[str, Any], claims: dict[str, Any]) -> str:
            made = {name: value(claims) if callable(value) else value for name, value in id_token.items()}
            return hostile.signed(header, hostile.changed(claims, made), world.provider.key())

        world.provider.behaviour.write = write
        return browser.sign_in()

    return attempt


def written(write: Callable[[World, dict[str, Any], dict[str, Any]], str]) -> Attempt:
    """An ID token in a form of its own."""

    def attempt(world: World) -> Seen:
        browser = world.as_("mallory", service_projects="default")
        world.provider.behaviour.write = lambda header, claims: write(world, header, claims)
        return browser.sign_in()

    return attempt


def _unsigned(_: World, header: dict[str, Any], claims: dict[str, Any]) -> str:
    return hostile.unsigned({**header, "alg": "none"}, claims)


def _with_the_public_key(world: World, header: dict[str, Any], claims: dict[str, Any]) -> str:
    key = world.provider.key()
    assert isinstance(key, jwk.RSAKey)
    return hostile.hashed({**header, "alg": "HS256"}, claims, key.as_pem(private=False))


def _with_the_client_secret(_: World, header: dict[str, Any], claims: dict[str, Any]) -> str:
    return hostile.hashed({**header, "alg": "HS256"}, claims, hostile.CLIENT_SECRET.encode())


def _by_a_stranger(_: World, header: dict[str, Any], claims: dict[str, Any]) -> str:
    return hostile.signed(header, claims, jwk.RSAKey.generate_key(2048))


def answered(**token: object) -> Attempt:
    """An answer of the token endpoint with other members."""

    def attempt(world: World) -> Seen:
        browser = world.as_("mallory", service_projects="default")
        world.provider.behaviour.token = token
        return browser.sign_in()

    return attempt


def replayed_nonce(world: World) -> Seen:
    """An ID token that was made for another sign-in."""
    kept: list[Any] = []
    first = world.as_("mallory", service_projects="default")

    def keep(header: dict[str, Any], claims: dict[str, Any]) -> str:
        kept.append(claims["nonce"])
        return hostile.signed(header, {**claims, "nonce": kept[0]}, world.provider.key())

    world.provider.behaviour.write = keep
    world.provider.behaviour.claims = {"aud": "another-client"}  # the first is not let in either
    first.sign_in()
    world.provider.behaviour.claims = {"service_projects": "default"}
    return world.browser().sign_in()


# The way back


def coming_back(**redirect: object) -> Attempt:
    """The browser brings other parameters."""

    def attempt(world: World) -> Seen:
        browser = world.as_("mallory", service_projects="default")
        world.provider.behaviour.redirect = redirect
        return browser.sign_in()

    return attempt


def in_another_browser(world: World) -> Seen:
    """Login CSRF: the victim's browser is led to the end of the attacker's sign-in."""
    mine = world.as_("mallory", service_projects="default")
    back = mine.come_back(mine.get("/account"))
    return world.browser().get(back)


def with_a_flow_of_their_own(world: World) -> Seen:
    """The same, where the victim has begun a sign-in."""
    mine, victim = world.as_("mallory", service_projects="default"), world.browser()
    victim.get("/account")
    return victim.get(mine.come_back(mine.get("/account")))


def with_a_changed_flow(world: World) -> Seen:
    """The sealed cookie, with one character changed."""
    browser = world.as_("mallory", service_projects="default")
    back = browser.come_back(browser.get("/account"))
    sealed = browser.jar["reconciler-flow"]
    browser.jar["reconciler-flow"] = sealed[:40] + ("A" if sealed[40] != "A" else "B") + sealed[41:]
    return browser.get(back)


def twice(world: World) -> Seen:
    """The end of a sign-in, again, with the cookies of the first time."""
    browser = world.as_("known", service_projects="default")
    back = browser.come_back(browser.get("/account"))
    flow = dict(browser.jar)
    assert browser.get(back).status == 303
    browser.jar = flow
    return browser.get(back)


def with_a_code_of_another(world: World) -> Seen:
    """Somebody else's code in one's own sign-in."""
    victim = world.as_("victim")
    stolen = victim.come_back(victim.get("/account")).partition("code=")[2].partition("&")[0]
    browser = world.as_("mallory", service_projects="default")
    back = browser.come_back(browser.get("/account"))
    mine = back.partition("code=")[2].partition("&")[0]
    return browser.get(back.replace(mine, stolen))


# Cookies


def with_cookie(make: Callable[[World, Browser], str], path: str = "/v1/me") -> Attempt:
    """The interface, asked with this as the Cookie of a member."""

    def attempt(world: World) -> Seen:
        browser = world.member("member")
        return browser.ask("GET", path, headers={"Cookie": make(world, browser)})

    return attempt


def _doubled(_: World, browser: Browser) -> str:
    value = browser.jar["reconciler"]
    return f"reconciler={value}; reconciler={value}"


def _with_an_attackers(_: World, browser: Browser) -> str:
    return f"reconciler={'A' * 43}; reconciler={browser.jar['reconciler']}"


def _crowded(_: World, browser: Browser) -> str:
    return "; ".join([f"c{number}=x" for number in range(2_000)] + [f"reconciler={browser.jar['reconciler']}"])


def _with_a_prefix(_: World, browser: Browser) -> str:
    return f"__Host-reconciler={browser.jar['reconciler']}"


def _as_the_flow(_: World, browser: Browser) -> str:
    return f"reconciler-flow={browser.jar['reconciler']}"


def fixated(world: World) -> Seen:
    """The cookie that was in the browser before its owner signed in."""
    browser, preset = world.as_("member", service_projects="default"), "A" * 43
    browser.jar["reconciler"] = preset
    assert browser.sign_in().status == 200
    assert browser.jar["reconciler"] != preset
    return browser.ask("GET", "/v1/me", headers={"Cookie": f"reconciler={preset}"})


def before_the_last_sign_in(world: World) -> Seen:
    """The cookie of a session over which its owner signed in again."""
    browser = world.member("member")
    before = browser.jar["reconciler"]
    assert browser.finish(browser.come_back(browser.get("/oidc/sign-in?back=/account"))).status == 200
    return browser.ask("GET", "/v1/me", headers={"Cookie": f"reconciler={before}"})


def signed_out(world: World) -> Seen:
    """The cookie of somebody who signed out."""
    browser = world.member("member")
    kept = dict(browser.jar)
    assert browser.post("/sign-out").status == 200
    browser.jar = kept
    return browser.get("/v1/me")


def after_losing(take: Callable[[World, str], object]) -> Attempt:
    """The cookie of somebody from whom something was taken."""

    def attempt(world: World) -> Seen:
        browser = world.as_("loser", service_projects="user:default", preferred_username="loser")
        assert browser.sign_in().status == 200
        take(world, "loser")
        seen = browser.get("/v1/me")
        world.daemon.delete("/v1/users/loser")
        return seen

    return attempt


def called_like(preferred: str) -> Attempt:
    """Somebody who has chosen what they are called so that no path may hold it, and is removed all the same."""

    def attempt(world: World) -> Seen:
        before = {one["name"] for one in world.people()}
        browser = world.as_("unremovable", service_projects="user:default", preferred_username=preferred)
        assert browser.sign_in().status == 200
        [name] = {one["name"] for one in world.people()} - before
        _removed(world, name)
        return browser.get("/v1/me")

    return attempt


def _removed(world: World, name: str) -> None:
    assert world.daemon.delete(f"/v1/users/{name}").status == 204


def _without_a_role(world: World, name: str) -> None:
    assert world.daemon.delete(f"/v1/projects/default/members/{name}").status == 204


def _with_less(world: World, name: str) -> None:
    body = b'{"role":"viewer"}'
    assert world.daemon.request("PUT", f"/v1/projects/default/members/{name}", body).status == 200


def with_headers(make: Callable[[World, Browser], Mapping[str, str]]) -> Attempt:
    """The interface, asked by a member's browser with these."""

    def attempt(world: World) -> Seen:
        browser = world.member("member")
        return browser.ask("GET", "/v1/me", headers=make(world, browser))

    return attempt


def an_id_token(in_cookie: bool) -> Attempt:
    """The ID token of somebody who is let in, as a credential."""

    def attempt(world: World) -> Seen:
        kept: list[str] = []
        browser = world.as_("member", service_projects="default")

        def keep(header: dict[str, Any], claims: dict[str, Any]) -> str:
            kept.append(hostile.signed(header, claims, world.provider.key()))
            return kept[-1]

        world.provider.behaviour.write = keep
        assert browser.sign_in().status == 200
        shown = {"Cookie": f"reconciler={kept[0]}"} if in_cookie else {"Authorization": f"Bearer {kept[0]}"}
        return world.browser().ask("GET", "/v1/me", headers=shown)

    return attempt


# Other sites


def form(
    path: str, headers: Mapping[str, str], body: bytes = b"name=evil&project=default&role=user&scopes=resources"
) -> Attempt:
    """A form that a page of another site has the browser of an admin send."""
    return lambda world: world.member("an-admin", role="admin").ask(
        "POST", path, body, {"Content-Type": FORM, **headers}
    )


def written_by_cookie(headers: Mapping[str, str]) -> Attempt:
    """A write to the interface, by a script of another site."""
    body = b'{"name":"evil","role":"user","project":"default"}'
    return lambda world: world.member("an-admin", role="admin").ask(
        "POST", "/v1/api-keys", body, {"Content-Type": "application/json", **headers}
    )


def framed(path: str) -> Attempt:
    """A page of another site lays one of the console over its own: the rule for frames that the browser gets."""

    def attempt(world: World) -> Seen:
        seen = world.member("an-admin", role="admin").get(path)
        rule = seen.header("content-security-policy").rpartition("; ")[2]
        return Seen(seen.status, [("content-type", "application/json")], json.dumps({"errors": [rule]}))

    return attempt


CROSS = {"Origin": EVIL, "Sec-Fetch-Site": "cross-site"}
BUTTON = b"action=create-project&name=evil&back=/"


# Where it leads


def back(to: str) -> Attempt:
    """A link that signs somebody in and leads them elsewhere: where the browser goes after the provider."""

    def attempt(world: World) -> Seen:
        browser = world.as_("member", service_projects="default")
        return browser.get(browser.come_back(browser.get(f"/oidc/sign-in?back={to}")))

    return attempt


# Who is let in


def coming_as(**claims: object) -> Attempt:
    """Somebody whom the provider knows."""
    return lambda world: world.as_("mallory", **claims).sign_in()


def with_code(code: Callable[[World], str]) -> Attempt:
    """Somebody who brings an invitation's code."""

    def attempt(world: World) -> Seen:
        brought = code(world)
        browser = world.as_("mallory")
        seen = browser.post("/invitation", {"code": brought})
        return seen if not seen.onwards else browser.finish(browser.come_back(seen))

    return attempt


def _used(world: World) -> str:
    code, guest = world.code(), world.as_("guest")
    seen = guest.finish(guest.come_back(guest.post("/invitation", {"code": code})))
    assert seen.status == 200, seen
    return code


def with_an_unverified_address(world: World) -> Seen:
    """An invitation waits for an address that the provider does not vouch for."""
    asked = {"role": "admin", "email": "boss@example.com"}
    made = world.daemon.post("/v1/projects/default/invitations", asked).body["invitation"]["id"]
    seen = world.as_("mallory", email="boss@example.com", email_verified=False).sign_in()
    world.daemon.delete(f"/v1/projects/default/invitations/{made}")
    return seen


def flood(path: str, times: int) -> Attempt:
    """The same page over and over, from one address."""

    def attempt(world: World) -> Seen:
        browser = world.browser()
        for _ in range(times):
            seen = browser.ask("GET", path)
        return seen

    return attempt


NO_ONE = "401 Say who asks: a key as `Authorization: Bearer <key>` or `X-Service-Api-Key: <key>`."
OTHER_SITE = (
    "A browser sent this for a page of another site; only pages of this service may change anything. Behind a proxy, "
    "set `webURL` to the address that people use."
)
NO_ORIGIN = (
    "This says not of which site it comes (`Origin`), as a browser does for whoever signed in with one; programs use a "
    "key."
)

ATTACKS: tuple[Attack, ...] = (
    Attack("an ID token without an audience", told(aud=GONE), NOT_SIGNED_IN),
    Attack("an ID token with no audience in its list", told(aud=[]), NOT_SIGNED_IN),
    Attack("an ID token for another client", told(aud="another"), NOT_SIGNED_IN),
    Attack(
        "an ID token for another client that we were party to", told(aud=["another"], azp="reconciler"), NOT_SIGNED_IN
    ),
    Attack(
        "an ID token that another client had made", told(aud=["reconciler", "another"], azp="another"), NOT_SIGNED_IN
    ),
    Attack("an ID token of another issuer", told(iss=EVIL), NOT_SIGNED_IN),
    Attack("an ID token of an issuer with a slash more", told(iss=lambda claims: claims["iss"] + "/"), NOT_SIGNED_IN),
    Attack("an ID token that has expired", told(exp=lambda claims: claims["iat"] - HOUR), NOT_SIGNED_IN),
    Attack("an ID token from the future", told(iat=lambda claims: claims["iat"] + HOUR), NOT_SIGNED_IN),
    Attack("an ID token without an end", told(exp=GONE), NOT_SIGNED_IN),
    Attack("an ID token without a subject", told(sub=GONE), NOT_SIGNED_IN),
    Attack("an ID token whose subject is a number", told(sub=1), NOT_SIGNED_IN),
    Attack("an ID token without a nonce", told(nonce=GONE), NOT_SIGNED_IN),
    Attack("an ID token with the nonce of another sign-in", replayed_nonce, NOT_SIGNED_IN),
    Attack("an ID token without a signature", written(_unsigned), NOT_SIGNED_IN),
    Attack("an ID token signed with the public key as a secret", written(_with_the_public_key), NOT_SIGNED_IN),
    Attack("an ID token signed with the client secret", written(_with_the_client_secret), NOT_SIGNED_IN),
    Attack("an ID token signed by a stranger", written(_by_a_stranger), NOT_SIGNED_IN),
    Attack("an ID token that is none", written(lambda *_: "canary-<b>not.a.token</b>"), NOT_SIGNED_IN),
    Attack("an answer without an ID token", answered(id_token=GONE), NOT_SIGNED_IN),
    Attack("another state", coming_back(state="A" * 43), NOT_SIGNED_IN),
    Attack("no state", coming_back(state=GONE), NOT_SIGNED_IN),
    Attack("two states", coming_back(state=["A" * 43, "B" * 43]), NOT_SIGNED_IN),
    Attack("no code", coming_back(code=GONE), NOT_SIGNED_IN),
    Attack("a code of another provider", coming_back(iss=EVIL), NOT_SIGNED_IN),
    Attack(
        "an error with markup in it",
        coming_back(code=GONE, error="access_denied", error_description="<script>alert(1)</script>"),
        "403 You are not signed in",
    ),
    Attack("a sign-in that another browser began", in_another_browser, NOT_SIGNED_IN),
    Attack("a sign-in that another browser began, in one that began its own", with_a_flow_of_their_own, NOT_SIGNED_IN),
    Attack("a sign-in whose cookie was changed", with_a_changed_flow, NOT_SIGNED_IN),
    Attack("a sign-in that ended before", twice, NOT_SIGNED_IN),
    Attack("a code of somebody else", with_a_code_of_another, NOT_SIGNED_IN),
    Attack("a cookie that was there before", fixated, NO_ONE),
    Attack("a cookie from before the last sign-in", before_the_last_sign_in, NO_ONE),
    Attack("a cookie after signing out", signed_out, NO_ONE),
    Attack("a cookie of somebody who was removed", after_losing(_removed), NO_ONE),
    Attack("a cookie of somebody without a role any more", after_losing(_without_a_role), NO_ONE),
    Attack("a cookie of somebody with less than before", after_losing(_with_less), NO_ONE),
    Attack("a cookie of somebody called like a code", called_like(f"rci_{'A' * 43}"), NO_ONE),
    Attack("a cookie of somebody called like a key", called_like(f"rck_{'a' * 12}_{'A' * 43}"), NO_ONE),
    Attack("the cookie twice", with_cookie(_doubled), NO_ONE),
    Attack("the cookie behind an attacker's", with_cookie(_with_an_attackers), NO_ONE),
    Attack("the cookie among two thousand", with_cookie(_crowded), NO_ONE),
    Attack("the cookie under the name for https", with_cookie(_with_a_prefix), NO_ONE),
    Attack("the cookie under the name of a sign-in", with_cookie(_as_the_flow), NO_ONE),
    Attack("a cookie of a million characters", with_cookie(lambda *_: "reconciler=" + "A" * 1_000_000), "431 "),
    Attack(
        "the cookie beside a wrong key",
        with_headers(lambda *_: {"X-Service-Api-Key": "canary-wrong"}),
        "401 The key is not known.",
    ),
    Attack(
        "the cookie beside a password",
        with_headers(lambda *_: {"Authorization": "Basic Zmlyc3Q6Y2FuYXJ5"}),
        f"401 Passwords open nothing here: people sign in with a browser, at {WEB_URL}. Programs send a key.",
    ),
    Attack(
        "the cookie as a key",
        with_headers(lambda _, browser: {"Authorization": f"Bearer {browser.jar['reconciler']}"}),
        "401 The key is not known.",
    ),
    Attack("an ID token as a key", an_id_token(in_cookie=False), "401 The key is not known."),
    Attack("an ID token as a cookie", an_id_token(in_cookie=True), NO_ONE),
    Attack("a form of another site", form("/account/keys", CROSS), f"403 This was refused {OTHER_SITE}"),
    Attack(
        "a form of a neighbouring host",
        form("/account/keys", {"Origin": "http://evil.127.0.0.1:3001", "Sec-Fetch-Site": "same-site"}),
        f"403 This was refused {OTHER_SITE}",
    ),
    Attack("a form without a word on its site", form("/account/keys", {}), f"403 This was refused {NO_ORIGIN}"),
    Attack(
        "a form of a frame without an origin",
        form("/account/keys", {"Origin": "null"}),
        f"403 This was refused {OTHER_SITE}",
    ),
    Attack("a form as plain text", form("/account/keys", {"Origin": WEB_URL, "Content-Type": "text/plain"}), "415 "),
    Attack("a form that revokes a key, of another site", form("/account/keys/revoke", CROSS), "403 This was refused"),
    Attack("a button of the console, of another site", form("/act", CROSS, BUTTON), "403 This was refused"),
    Attack("a button of the console, of nobody", form("/act", {}, BUTTON), "403 This was refused"),
    Attack(
        "a test of a destination, of another site",
        form("/delivery/default/siem/test", CROSS),
        "403 This was refused",
    ),
    Attack("an invitation by another site", form("/projects/default/invite", CROSS, b"role=admin"), "403 This was"),
    Attack("a sign-out everywhere, of another site", form("/account/sessions/end", CROSS), "403 This was refused"),
    Attack("a frame around the overview", framed("/"), "200 frame-ancestors 'none'"),
    Attack("a frame around a button", framed("/problems"), "200 frame-ancestors 'none'"),
    Attack("a frame around the account", framed("/account"), "200 frame-ancestors 'none'"),
    Attack("a form that signs out, of another site", form("/sign-out", CROSS), "403 This was refused"),
    Attack("an invitation's form of another site", form("/invitation", CROSS), "403 This was refused"),
    Attack("a form of a megabyte", form("/account/keys", {"Origin": WEB_URL}, b"name=" + b"x" * 2**20), "413 "),
    Attack("a form of a thousand fields", form("/account/keys", {"Origin": WEB_URL}, b"a=b&" * 1_000), "400 "),
    Attack("a form with a field twice", form("/account/keys", {"Origin": WEB_URL}, b"name=a&name=b"), "400 "),
    Attack("a script of another site", written_by_cookie(CROSS), f"403 {OTHER_SITE}"),
    Attack("a script without a word on its site", written_by_cookie({}), f"403 {NO_ORIGIN}"),
    Attack("a script as plain text", written_by_cookie({"Origin": WEB_URL, "Content-Type": "text/plain"}), "415 "),
    *(
        Attack(f"a way back to {to}", back(to), "303 /")
        for to in (
            "https://evil.example",
            "//evil.example",
            "/%5Cevil.example",
            "%5C%5Cevil.example",
            "/%09/evil.example",
            "javascript:alert(1)",
            "/account%0D%0ASet-Cookie:%20reconciler=x",
            "/..//evil.example",
        )
    ),
    Attack("nothing that lets anybody in", coming_as(), "403 No access yet"),
    Attack("groups of the wrong type", coming_as(groups={"service-org-admin": True}), "403 No access yet"),
    Attack("projects of the wrong type", coming_as(service_projects=["default"]), "403 No access yet"),
    Attack("an admin by a boolean", coming_as(service_org_admin=True), "403 No access yet"),
    Attack("an address that nobody vouches for", with_an_unverified_address, "403 No access yet"),
    Attack("a code that nobody made", with_code(lambda _: f"rci_{'A' * 43}"), "403 No access yet"),
    Attack("a code that was used", with_code(_used), "403 No access yet"),
    Attack("a code that is none", with_code(lambda _: "<script>alert(1)</script>"), "400 Use an invitation"),
    Attack("a password where there is a provider", form("/sign-in", {"Origin": WEB_URL}), "404 There is no such page"),
    Attack("sign-ins without an end", flood("/account", 200), "429 Too many requests"),
    Attack(
        "ends of sign-ins without a beginning", flood("/oidc/redirect?code=x&state=y", 200), "429 Too many requests"
    ),
)
