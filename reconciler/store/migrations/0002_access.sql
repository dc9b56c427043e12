-- Who may do what: people, their roles in projects, and keys.

create table user (
  id                 text primary key,
  name               text not null unique,
  display_name       text not null,
  organization_admin integer not null,
  password           text,             -- an encoded argon2id hash; null: cannot sign in with a password
  created_at         text not null
) strict, without rowid;

create table member (
  project text not null references project (name),
  user    text not null references user (id) on delete cascade,
  role    text not null,
  primary key (project, user)
) strict, without rowid;

create index member_by_user on member (user);

create table api_key (
  id           text primary key,
  name         text not null,
  prefix       text not null unique,
  digest       blob not null,          -- SHA-256 of the whole key, which has 256 random bits
  project      text references project (name),  -- null: the organization's
  role         text not null,
  scopes       text not null,          -- separated by spaces, sorted
  created_at   text not null,
  created_by   text not null,
  expires_at   text,
  last_used_at text
) strict, without rowid;

-- Who may see one project alone lists the runs of that one.
create index run_by_project on run (project, id);
