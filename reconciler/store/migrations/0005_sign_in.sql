-- People whom a provider proves, roles that wait for people, and what ends their sessions, which are in a file of their own.

alter table user add column issuer text;                        -- null: a person with a password
alter table user add column subject text check ((subject is null) = (issuer is null));
alter table user add column email text not null default '';
alter table user add column losses integer not null default 0;  -- how often anything was taken from them

-- Only the two together are a person; an e-mail address may be of many.
create unique index user_by_identity on user (issuer, subject) where issuer is not null;

create table invitation (
  id         text primary key,
  project    text not null references project (name),
  role       text not null,
  created_at text not null,
  created_by text not null,
  expires_at text not null,
  digest     blob unique,    -- SHA-256 of the code; null: it waits for the address
  email      text not null,  -- in lower case; empty: whoever has the code
  check ((digest is null) = (email <> ''))
) strict, without rowid;

-- An address waits once for each project.
create unique index invitation_by_email on invitation (project, email) where email <> '';
