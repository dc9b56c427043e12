-- Plain tables: a change is one transaction, so no row is written before it counts.
--
-- What others may rely on:
-- - Everything that counted at the present revision (`fact.revision`) is kept. A large change that was written ahead of its
--   transaction and never shown is removed, with its versions, events and run statuses. So are rows that had ended, and
--   lists that no repository had any more.
-- - `audit.link` is the link of an event, in place of `audit_span`. The events of a link are in the order of their ids.
--   An event of link 0 belongs to no link: somebody added it, or removed its link.
-- - Links up to `audit_anchor.number` are gone. Their events are being deleted, and nobody sees them.
-- - `project.changed` is the revision of the last change of that project.

drop view version;
drop view audit;
drop view resource;
drop view reference;
drop view source_file;
drop view wanted;
drop view held;

-- The statuses of a run that was never recorded.
delete from run_status where run in (select run from staged where run not in (select id from run));

delete from version_row where since > (select value from fact where key = 'revision');
alter table version_row drop column since;
alter table version_row rename to version;

create table resource (
  project     text not null references project (name),
  kind        text not null,
  name        text not null,
  version     integer not null,
  version_id  integer,           -- `version.id` of it, by which a read finds it
  resource_id text not null,
  digest      blob not null,
  owner       text,              -- a repository; null: the API
  path        text,              -- where it is now in that repository
  line        integer,
  protected   integer not null,  -- 1: the label service/prune is `disabled`
  incomplete  integer not null,  -- 1: its status says what is missing
  drifted     integer not null,  -- 1: the API stored it while its owner was suspended
  origin      integer references origin (id),  -- of the source in its status; null: that of its version
  place       integer,           -- of the source in its status; null: that of its version, 1: where it is, 0: none
  status      blob not null,     -- JSON, without `source`; it changes without a new version
  primary key (project, kind, name)
) strict, without rowid;

insert into resource
select project, kind, name, version, version_id, resource_id, digest, owner, path, line, protected, incomplete, drifted,
       origin, place, ifnull(status, x'7b226c6174657374223a747275657d')
from resource_row
where since <= (select value from fact where key = 'revision')
  and ifnull(until > (select value from fact where key = 'revision'), 1)
order by project, kind, name;
drop table resource_row;

create unique index resource_by_id on resource (project, resource_id);
create index resource_incomplete on resource (owner, kind, name) where incomplete = 1;
create index resource_by_owner on resource (owner, project, path, kind, name) where owner is not null;

create table reference (
  project     text not null,
  kind        text not null,
  name        text not null,
  target_kind text not null,
  target_name text not null,
  primary key (project, kind, name, target_kind, target_name)
) strict, without rowid;

insert into reference
select project, kind, name, target_kind, target_name
from reference_row
where since <= (select value from fact where key = 'revision')
  and ifnull(until > (select value from fact where key = 'revision'), 1)
order by project, kind, name, target_kind, target_name;
drop table reference_row;

create index reference_by_target on reference (project, target_kind, target_name, kind, name);

create table source_file (
  repository text not null,
  path       text not null,
  blob       text not null,
  vacant     text,               -- why it holds nothing although its name says that it could: a link, empty
  given      text,               -- keys that it held before, as JSON, when they are not stored from there
  primary key (repository, path)
) strict, without rowid;

insert into source_file
select l.repository, f.path, f.blob, f.vacant, f.given
from listing l cross join source_file_row f on f.listing = l.number
where l.what = 'index' and f.since <= (select value from fact where key = 'revision')
  and ifnull(f.until > (select value from fact where key = 'revision'), 1)
order by l.repository, f.path;
drop table source_file_row;

create index source_file_vacant on source_file (repository, path) where vacant is not null;
create index source_file_given on source_file (repository, path) where given is not null;

create table wanted (
  repository  text not null,
  path        text not null,
  position    integer not null,
  kind        text,
  name        text,
  digest      blob,
  unconverged text,              -- `waiting`: the store may let it in one day; `refused`: it will not
  primary key (repository, path, position)
) strict, without rowid;

insert into wanted
select l.repository, w.path, w.position, w.kind, w.name, w.digest, w.unconverged
from listing l cross join wanted_row w on w.listing = l.number
where l.what = 'index' and w.since <= (select value from fact where key = 'revision')
  and ifnull(w.until > (select value from fact where key = 'revision'), 1)
order by l.repository, w.path, w.position;
drop table wanted_row;

create index wanted_by_key on wanted (repository, kind, name);
create index wanted_unconverged on wanted (repository, path) where unconverged is not null;

create table held (
  repository text not null,
  why        text not null,
  kind       text not null,
  name       text not null,
  primary key (repository, why, kind, name)
) strict, without rowid;

insert into held
select l.repository, h.why, h.kind, h.name
from listing l cross join held_row h on h.listing = l.number
where l.what = 'held'
order by l.repository, h.why, h.kind, h.name;
drop table held_row;

-- Who changed a resource, and when, is that of its origin; other events say it themselves.
create table audit (
  id             integer primary key,
  link           integer not null,  -- `audit_link.number`
  origin         integer references origin (id),
  project        text not null,
  action         text not null,
  kind           text not null,
  name           text not null,
  version_before integer,
  version_after  integer,
  at             text,
  actor          text,
  run            text,
  request        text,
  detail         text,
  address        text,              -- where a request came from that the event alone tells of
  salt           blob,              -- hashed with it, and gone with what is redacted: nobody guesses by the hash
  check (origin is not null or (at is not null and actor is not null))
) strict;

-- An event that somebody put into two spans stays in the first, so that the second lacks it when the chain is verified.
insert or ignore into audit
select a.id, s.link, a.origin, a.project, a.action, a.kind, a.name, a.version_before, a.version_after, a.at, a.actor, a.run,
       a.request, a.detail, a.address, a.salt
from audit_span s
cross join audit_row a on a.id between s.first and s.last and +a.since = s.since
where s.link > (select number from audit_anchor where id = 1)
order by s.link, s.first, a.id;

insert or ignore into audit
select a.id, 0, a.origin, a.project, a.action, a.kind, a.name, a.version_before, a.version_after, a.at, a.actor, a.run,
       a.request, a.detail, a.address, a.salt
from audit_row a
where a.since <= (select value from fact where key = 'revision')
  and ifnull((select s.last from audit_span s where s.since = a.since and s.first <= a.id
              order by s.first desc limit 1), a.id - 1) < a.id;

drop table audit_row;
drop table audit_span;

create index audit_by_name on audit (name);
create index audit_by_link on audit (link);

drop table listing;
drop table staged;
delete from fact where key = 'reserved';

alter table project add column changed integer not null default 0;
update project set changed = (select value from fact where key = 'revision');
