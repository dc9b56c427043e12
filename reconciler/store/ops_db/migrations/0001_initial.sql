-- What is kept beside the resources: browsers that are signed in. Nothing here is precious: without it people sign in again.

create table fact (
  key   text primary key,
  value any not null
) strict, without rowid;

create table session (
  digest     blob primary key,  -- SHA-256 of what its cookie holds, which has 256 random bits
  user       text not null,     -- an id of the store
  losses     integer not null,  -- those of the person when it began
  created_at text not null,
  seen_at    text not null,
  id_token   text not null      -- for the provider's own sign-out; empty: a password, or a long one
) strict, without rowid;
