-- The first shape of the store. Every change has a project, an actor, and a run or a request.

-- Facts about this store itself: its revision, and the key under which sensitive values are digested.
create table fact (
  key   text primary key,
  value any not null
) strict, without rowid;

create table project (
  name       text primary key,
  created_at text not null
) strict, without rowid;

-- Every version of every resource, for ever. A deletion writes no version, and versions outlive it.
create table version (
  id          integer primary key,
  project     text not null references project (name),
  kind        text not null,
  name        text not null,
  version     integer not null,
  resource_id text not null,
  digest      blob not null,
  body        blob not null,     -- what a reader gets, less `status`: sensitive values are masked
  secrets     blob,              -- the sensitive values, apart
  source      blob not null,     -- JSON: the commit or the request that stored it
  actor       text not null,
  run         text,
  request     text,
  created_at  text not null,
  unique (project, kind, name, version)
) strict;

-- What exists now: one row a resource. Small, since every plan reads it.
create table resource (
  project     text not null references project (name),
  kind        text not null,
  name        text not null,
  version     integer not null,
  resource_id text not null,
  digest      blob not null,
  owner       text,              -- a repository; null: the API
  path        text,              -- where it stands now in that repository
  line        integer,
  protected   integer not null,  -- 1: the label service/prune is `disabled`
  incomplete  integer not null,  -- 1: its status says what is missing
  status      blob not null,     -- JSON; it changes without a new version
  drifted     integer not null,  -- 1: the API stored it while its owner was suspended
  primary key (project, kind, name)
) strict, without rowid;

create unique index resource_by_id on resource (project, resource_id);
create index resource_incomplete on resource (owner, kind, name) where incomplete = 1;
create index resource_by_owner on resource (owner, project, path, kind, name) where owner is not null;

-- What each stored resource refers to, so that a change finds its dependants and a deletion what uses it.
create table reference (
  project     text not null,
  kind        text not null,
  name        text not null,
  target_kind text not null,
  target_name text not null,
  primary key (project, kind, name, target_kind, target_name)
) strict, without rowid;

create index reference_by_target on reference (project, target_kind, target_name, kind, name);

-- One row a change. What was before is version `version_before` of the history.
create table audit (
  id             integer primary key,
  at             text not null,
  project        text not null,
  actor          text not null,
  action         text not null,
  kind           text not null,
  name           text not null,
  version_before integer,
  version_after  integer,
  run            text,
  request        text,
  detail         text
) strict;

-- What is remembered of each watched repository between runs.
create table repository (
  name         text primary key,
  project      text not null,
  fingerprint  text,
  commit_id    text,
  tree         text,
  head         text,
  state        text not null,
  message      text,
  since        text not null,
  origin       text,            -- a digest of the url and branch that `commit_id` was applied from
  approvable   integer          -- 1: what is held at `head` can be approved; 0: it cannot; null: nothing is held
) strict, without rowid;

-- The repositories that are not looked at until somebody resumes them, or until an instant.
create table suspension (
  repository text primary key,
  reason     text not null,
  actor      text not null,
  since      text not null,
  until      text               -- null: until somebody ends it
) strict, without rowid;

-- One row a run that pruned. The budget is for any 24 hours; older rows go when one is written.
create table prune_ledger (
  id         integer primary key,
  repository text not null,
  at         integer not null,  -- milliseconds of Unix time
  owned      integer not null,  -- before the run
  deleted    integer not null   -- without approval
) strict;

create index prune_ledger_by_repository on prune_ledger (repository, at);

-- What a repository's head does not hold and stays all the same: `held` by a guard, `in-use`, or `protected`.
create table held (
  repository text not null,
  why        text not null,
  kind       text not null,
  name       text not null,
  primary key (repository, why, kind, name)
) strict, without rowid;

-- What an admin let go; it goes itself when nothing is held any more.
create table approval (
  repository text primary key,
  commit_id  text not null,
  actor      text not null,
  at         text not null
) strict, without rowid;

create table approved (
  repository text not null,
  kind       text not null,
  name       text not null,
  primary key (repository, kind, name)
) strict, without rowid;

-- The files of a repository's applied head that were considered.
create table source_file (
  repository text not null,
  path       text not null,
  blob       text not null,
  vacant     text,              -- why it holds nothing although its name says that it could: a link, empty
  given      text,              -- keys that it held before, as JSON, when they are not stored from there
  primary key (repository, path)
) strict, without rowid;

create index source_file_vacant on source_file (repository, path) where vacant is not null;
create index source_file_given on source_file (repository, path) where given is not null;

-- The resource documents of a repository's applied head: what it wants. A file that cannot be read is one document of
-- unknown kind and name.
create table wanted (
  repository  text not null,
  path        text not null,
  position    integer not null,
  kind        text,
  name        text,
  digest      blob,
  unconverged text,             -- `waiting`: the store may let it in one day; `refused`: it will not
  primary key (repository, path, position)
) strict, without rowid;

create index wanted_by_key on wanted (repository, kind, name);
-- What Git wants and the store does not hold: few, and read again in every run.
create index wanted_unconverged on wanted (repository, path) where unconverged is not null;

create table run (
  id          text primary key,
  project     text not null,
  repository  text not null,
  trigger     text not null,
  actor       text not null,
  commit_id   text,
  outcome     text not null,
  message     text,
  counts      blob not null,
  rewound     integer not null,
  started_at  text not null,
  finished_at text not null,
  duration_ms integer not null
) strict, without rowid;

create index run_by_repository on run (repository, id);

-- Every status of a run that is not `unchanged`.
create table run_status (
  run     text not null,
  ordinal integer not null,
  kind    text,
  name    text,
  status  text not null,
  reason  text,
  path    text,
  line    integer,
  primary key (run, ordinal)
) strict, without rowid;

insert into fact (key, value) values ('revision', 0);
insert into fact (key, value) values ('hmac_key', randomblob(32));
