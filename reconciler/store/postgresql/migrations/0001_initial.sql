-- oldest program: 1
-- The first shape of the store on PostgreSQL: what `store.db` and `ops.db` hold on SQLite, and what replicas share.
--
-- What others may rely on:
-- - Text is in byte order (`collate "C"`). Numbers are `bigint`, and truth is 0 or 1, as on SQLite.
-- - PostgreSQL stores no NUL character in text: it is stored as U+FFFD. JSON is `bytea`, as it is sent.
-- - The row `revision` of `fact` is locked by each change of the store, so changes have one order.

-- Facts about this store itself. Each is a number, bytes, or a text.
create table fact (
  key    text collate "C" primary key,
  number bigint,
  bytes  bytea,
  text   text collate "C"
);

insert into fact (key, number) values ('revision', 0);
-- Three random UUIDs have 366 random bits.
insert into fact (key, bytes)
select 'hmac_key', sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'));

-- A member of a JSON object as text; null if the text is anything else. (PostgreSQL 15 has no test for JSON.)
create function json_member(document text, name text) returns text
language plpgsql immutable parallel safe as $$
begin
  return document::json ->> name;
exception when others then
  return null;
end
$$;

-- JSON that this program wrote, as text. No function of PostgreSQL reads an escaped NUL.
create function json_text(document bytea) returns text
language sql immutable parallel safe
return replace(convert_from(document, 'UTF8'), '\u0000', '\ufffd');

create table project (
  name       text collate "C" primary key,
  created_at text collate "C" not null
);

create table origin (
  id         bigint primary key,
  head       bytea not null,        -- JSON: the commit or the request, without `line` and `path`, which go between
  tail       bytea not null,
  actor      text collate "C" not null,
  run        text collate "C",
  request    text collate "C",
  created_at text collate "C" not null
);

create table version (
  id       bigint primary key,
  project  text collate "C" not null references project (name),
  kind     text collate "C" not null,
  name     text collate "C" not null,
  version  bigint not null,
  origin   bigint not null references origin (id),
  path     text collate "C",        -- in the commit that it came from; null: it came from no file
  line     bigint,
  secrets  bytea,                   -- the sensitive values, apart
  body     bytea not null,          -- what a reader gets, without `status`: sensitive values are masked
  checksum bigint not null,
  unique (project, kind, name, version)
);

create table resource (
  project     text collate "C" not null references project (name),
  kind        text collate "C" not null,
  name        text collate "C" not null,
  version     bigint not null,
  version_id  bigint,               -- `version.id` of it, by which a read finds it
  resource_id text collate "C" not null,
  digest      bytea not null,
  owner       text collate "C",     -- a repository; null: the API
  path        text collate "C",     -- where it is now in that repository
  line        bigint,
  protected   bigint not null,      -- 1: the label service/prune is `disabled`
  incomplete  bigint not null,      -- 1: its status says what is missing
  drifted     bigint not null,      -- 1: the API stored it while its owner was suspended
  origin      bigint references origin (id),  -- of the source in its status; null: that of its version
  place       bigint,               -- of the source in its status; null: that of its version, 1: where it is, 0: none
  status      bytea not null,       -- JSON, without `source`; it changes without a new version
  primary key (project, kind, name)
);

create unique index resource_by_id on resource (project, resource_id);
create index resource_incomplete on resource (owner, kind, name) where incomplete = 1;
create index resource_by_owner on resource (owner, project, path, kind, name) where owner is not null;

create table reference (
  project     text collate "C" not null,
  kind        text collate "C" not null,
  name        text collate "C" not null,
  target_kind text collate "C" not null,
  target_name text collate "C" not null,
  primary key (project, kind, name, target_kind, target_name)
);

create index reference_by_target on reference (project, target_kind, target_name, kind, name);

create table past_route (
  project       text collate "C" not null,
  configuration text collate "C" not null,
  is_in_force   bigint not null,    -- 1: it still has a webhook, even one that is held
  past          bytea not null,     -- JSON
  primary key (project, configuration)
);

create table rendering (
  project       text collate "C" not null,
  configuration text collate "C" not null,
  program       text collate "C" not null,  -- the version that rendered it, and which variables it must not use
  inputs        text collate "C" not null,  -- what it was made of, as the statement `unrendered` computes it
  said          bytea,              -- JSON: `status.rendering`, with the hash of the body; null: it is not rendered
  body          bytea,              -- what is in force, which may be older than `inputs`
  previous      bytea,
  previous_hash text collate "C",
  primary key (project, configuration)
);

create table repository (
  name        text collate "C" primary key,
  project     text collate "C" not null,
  fingerprint text collate "C",
  commit_id   text collate "C",
  tree        text collate "C",
  head        text collate "C",
  state       text collate "C" not null,
  message     text collate "C",
  since       text collate "C" not null,
  origin      text collate "C",     -- a digest of the url and branch that `commit_id` was applied from
  approvable  bigint                -- 1: what is held at `head` can be approved; 0: it cannot; null: nothing is held
);

create table suspension (
  repository text collate "C" primary key,
  reason     text collate "C" not null,
  actor      text collate "C" not null,
  since      text collate "C" not null,
  until      text collate "C"       -- null: until somebody ends it
);

create table prune_ledger (
  id         bigint generated always as identity primary key,
  repository text collate "C" not null,
  at         bigint not null,       -- milliseconds of Unix time
  owned      bigint not null,       -- before the run
  deleted    bigint not null        -- without approval
);

create index prune_ledger_by_repository on prune_ledger (repository, at);

create table held (
  repository text collate "C" not null,
  why        text collate "C" not null,
  kind       text collate "C" not null,
  name       text collate "C" not null,
  primary key (repository, why, kind, name)
);

create table approval (
  repository text collate "C" primary key,
  commit_id  text collate "C" not null,
  actor      text collate "C" not null,
  at         text collate "C" not null
);

create table approved (
  repository text collate "C" not null,
  kind       text collate "C" not null,
  name       text collate "C" not null,
  primary key (repository, kind, name)
);

create table source_file (
  repository text collate "C" not null,
  path       text collate "C" not null,
  blob       text collate "C" not null,
  vacant     text collate "C",      -- why it holds nothing although its name says that it could: a link, empty
  given      text collate "C",      -- keys that it held before, as JSON, when they are not stored from there
  primary key (repository, path)
);

create index source_file_vacant on source_file (repository, path) where vacant is not null;
create index source_file_given on source_file (repository, path) where given is not null;

create table wanted (
  repository  text collate "C" not null,
  path        text collate "C" not null,
  position    bigint not null,
  kind        text collate "C",
  name        text collate "C",
  digest      bytea,
  unconverged text collate "C",     -- `waiting`: the store may let it in one day; `refused`: it will not
  primary key (repository, path, position)
);

create index wanted_by_key on wanted (repository, kind, name);
create index wanted_unconverged on wanted (repository, path) where unconverged is not null;

create table run (
  id          text collate "C" primary key,
  project     text collate "C" not null,
  repository  text collate "C" not null,
  trigger     text collate "C" not null,
  actor       text collate "C" not null,
  commit_id   text collate "C",
  outcome     text collate "C" not null,
  message     text collate "C",
  counts      bytea not null,
  rewound     bigint not null,
  started_at  text collate "C" not null,
  finished_at text collate "C" not null,
  duration_ms bigint not null,
  flows       bytea
);

create index run_by_repository on run (repository, id);
create index run_by_project on run (project, id);

create table run_status (
  run     text collate "C" not null,
  ordinal bigint not null,
  kind    text collate "C",
  name    text collate "C",
  status  text collate "C" not null,
  reason  text collate "C",
  path    text collate "C",
  line    bigint,
  notes   text collate "C",
  primary key (run, ordinal)
);

create table audit (
  id             bigint primary key,
  link           bigint not null,   -- `audit_link.number`
  origin         bigint references origin (id),
  project        text collate "C" not null,
  action         text collate "C" not null,
  kind           text collate "C" not null,
  name           text collate "C" not null,
  version_before bigint,
  version_after  bigint,
  at             text collate "C",
  actor          text collate "C",
  run            text collate "C",
  request        text collate "C",
  detail         text collate "C",
  address        text collate "C",  -- where a request came from that the event alone tells of
  salt           bytea,             -- hashed with it, and gone with what is redacted: nobody guesses by the hash
  check (origin is not null or (at is not null and actor is not null))
);

create index audit_by_name on audit (name);
create index audit_by_link on audit (link, id);

create table audit_link (
  number   bigint primary key,      -- without a gap, in the order of the commits
  hash     bytea not null,
  events   bigint not null,
  first_at text collate "C" not null,  -- the earliest instant of its events; empty without events
  last_at  text collate "C" not null,
  address  text collate "C",        -- where the request came from that made them
  checked  bigint not null,         -- 0: the events from before there was a chain, as link 1
  content  bytea
);

create table audit_rewrite (
  event  bigint not null,           -- `audit.id`
  link   bigint not null,
  before bytea not null,
  after  bytea not null,
  primary key (event, link)
);

create index audit_rewrite_by_link on audit_rewrite (link);

create table audit_anchor (
  id         bigint primary key check (id = 1),
  number     bigint not null,
  hash       bytea not null,
  events     bigint not null,       -- that were removed so far
  last_event bigint not null,       -- the largest `audit.id` that was removed
  proof      bytea
);

insert into audit_anchor (id, number, hash, events, last_event)
values (1, 0, decode(repeat('00', 32), 'hex'), 0, 0);

create table "user" (
  id                 text collate "C" primary key,
  name               text collate "C" not null unique,
  display_name       text collate "C" not null,
  organization_admin bigint not null,
  password           text collate "C",  -- an encoded argon2id hash; null: cannot sign in with a password
  created_at         text collate "C" not null,
  issuer             text collate "C",
  subject            text collate "C",
  email              text collate "C" not null default '',
  losses             bigint not null default 0,
  check ((subject is null) = (issuer is null))
);

create unique index user_by_identity on "user" (issuer, subject) where issuer is not null;

create table member (
  project text collate "C" not null references project (name),
  "user"  text collate "C" not null references "user" (id) on delete cascade,
  role    text collate "C" not null,
  primary key (project, "user")
);

create index member_by_user on member ("user");

create table api_key (
  id           text collate "C" primary key,
  name         text collate "C" not null,
  prefix       text collate "C" not null unique,
  digest       bytea not null,      -- SHA-256 of the whole key, which has 256 random bits
  project      text collate "C" references project (name),  -- null: the organization's
  role         text collate "C" not null,
  scopes       text collate "C" not null,  -- separated by spaces, sorted
  created_at   text collate "C" not null,
  created_by   text collate "C" not null,
  expires_at   text collate "C",
  last_used_at text collate "C",
  owner        text collate "C" references "user" (id) on delete cascade
);

create index api_key_by_owner on api_key (owner) where owner is not null;

create table invitation (
  id         text collate "C" primary key,
  project    text collate "C" not null references project (name),
  role       text collate "C" not null,
  created_at text collate "C" not null,
  created_by text collate "C" not null,
  expires_at text collate "C" not null,
  digest     bytea unique,          -- SHA-256 of the code; null: it waits for the address
  email      text collate "C" not null,  -- in lower case; empty: whoever has the code
  check ((digest is null) = (email <> ''))
);

create unique index invitation_by_email on invitation (project, email) where email <> '';

-- Sessions and notifications

create table session (
  digest     bytea primary key,     -- SHA-256 of what its cookie holds, which has 256 random bits
  "user"     text collate "C" not null,
  losses     bigint not null,       -- those of the person when it began
  created_at text collate "C" not null,
  seen_at    text collate "C" not null,
  id_token   text collate "C" not null  -- for the provider's own sign-out; empty: a password, or a long one
);

create table notification (
  id   text collate "C" primary key,  -- a ULID: by it they are sorted by when they were opened
  body bytea not null
);

create table notification_status (
  notification text collate "C" not null,
  "user"       text collate "C" not null,
  status       text collate "C" not null,  -- `read` or `dismissed`; unread is no row
  primary key (notification, "user")
);

-- What replicas share

create table replica (
  name    text collate "C" primary key,
  url     text collate "C" not null,  -- where other replicas reach it; empty: nowhere
  version text collate "C" not null,
  beat    timestamptz not null
);

-- The right to follow a repository. Its number grows with each new holder, and each write of a run names it.
create table lease (
  repository text collate "C" primary key,
  holder     text collate "C",      -- a replica; null: nobody
  number     bigint not null,
  until      timestamptz not null
);

-- What changed, in the order of the changes, for all other replicas.
create table notice (
  number  bigint generated always as identity primary key,
  at      timestamptz not null default clock_timestamp(),
  replica text collate "C" not null,
  kind    text collate "C" not null,
  body    bytea not null
);
