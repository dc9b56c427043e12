"""Which addresses are this machine's, asked of its kernel each time, since interfaces come and go.

Belongs here: that question. Does not: what follows from the answer (`networks`).
"""

import errno
import socket
from ipaddress import IPv6Address

from reconciler.model.hosts import Address

_NOT_OURS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def machine_has(address: Address) -> bool:
    """Whether a program on this machine could listen on the address; microseconds, nothing is sent.

    When the kernel refuses for any other reason (too many open files, a sandbox), the answer is yes: what asks must
    rather not connect than connect to ourselves.
    """
    family = socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError as problem:
        return problem.errno not in _NOT_OURS
    return True
