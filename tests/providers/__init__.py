"""Real OpenID Connect providers on loopback, and people who sign in through them, with and without a browser.

    certified.say("ada", email="ada@example.test", email_verified=True, groups=["service-user"])
    ada = Person("ada")
    certified.let_in(ada, ada.visit(service.url))
    assert ada.me(service.url)["organizationAdmin"] is True

| module | what it is |
|---|---|
| `certified` | npm's oidc-provider, certified by the OpenID Foundation: `provider.mjs` in Node |
| `second` | Debian's glewlwyd, in C and with a database, which sees some things otherwise |
| `services` | the service, as a process, with `auth.type: oidc` |
| `people` | somebody who follows redirects and fills in forms, without a browser |
| `markup` | what is on a page: its heading, its text, its forms |
| `chromium` | somebody in Debian's Chromium, with the keyboard |
| `looking` | what any page of ours must be like |
| `visits` | what people do there again and again |
| `found` | where Node, the providers and the browser are on this machine |

The service is `127.0.0.1` and the providers are `localhost`: to a browser these are different sites, as they are to
people, and a cookie of one is not sent to the other. `scripts/setup-providers` gets what is not in this repository.
"""
