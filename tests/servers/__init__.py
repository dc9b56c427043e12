"""Real Git servers on loopback, and what can stand between them and a client. None needs root.

Each is a context manager on a free port; when it ends, no process, thread or connection of it is left.

    with https.serving(folder, certificate=authority.issue(), basic=("ada", "canary-password")) as server:
        source.bare(folder / "telemetry.git")
        with chaos.before(server.port) as proxy:
            proxy.fault = chaos.stall(after=10_000)

| module | what it is |
|---|---|
| `certificates` | an authority of our own, and the certificates that it signs |
| `https` | `git http-backend` behind HTTPS or HTTP: anonymous, basic, bearer; refuses in any way; notes every request |
| `ssh` | OpenSSH's sshd for the user who runs the tests: chosen host keys, authorized keys |
| `gitd` | `git daemon` |
| `chaos` | a TCP proxy that passes, refuses, resets, stalls, trickles and cuts |
| `sinks` | a webhook's endpoint: notes every request, answers by a script, and fails in every way |
| `forward` | an HTTP proxy for CONNECT, which notes where to |

`processes` and `loops` are what these are made of. What is expected of a daemon that asks them is in the tests.
"""
