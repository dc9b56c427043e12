"""A daemon that follows repositories over https, ssh and git://, and what the network and the servers do to it."""
