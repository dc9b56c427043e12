-- What is the same for all that one change stores is kept once, and a status says nothing that its version says already.
--
-- What others may rely on:
-- - The source that a reader gets is `origin.head`, then `"line"` and `"path"` where there is a path, then `origin.tail`.
--   It is put together in `resources.rendering`.
-- - `origin` only ever grows, and a row of it never changes. One that nothing refers to any more stays: a change that was
--   dropped leaves its own, and so does lineage that is filled in, and there are few of one change.
-- - The digest and the id of a version are in its resource and its body.

create table origin (
  id         integer primary key,  -- made of all the rest (`store.origins`); small numbers are older than that
  head       blob not null,        -- JSON: the commit or the request, without `line` and `path`, which go between
  tail       blob not null,
  actor      text not null,
  run        text,
  request    text,
  created_at text not null
) strict;

drop view version;
drop view resource;
drop view audit;

create temp table came_from as
select id, source, path, line, actor, run, request, created_at,
       dense_rank() over (order by source, actor, run, request, created_at) as origin
from (select id, json_remove(cast(source as text), '$.path', '$.line') as source,
             cast(source as text) ->> '$.path' as path, cast(source as text) ->> '$.line' as line,
             actor, run, request, created_at
      from version_row);
create unique index temp.came_from_by_id on came_from (id);

-- What was adopted without a new version says something else than that: only its status has it.
create temp table shown as
select r.project, r.kind, r.name, r.since, r.source, r.path, r.line, r.source is not c.source as is_other,
       r.path is not c.path or r.line is not c.line as is_elsewhere, c.actor, c.run, c.request, c.created_at
from (select project, kind, name, since, version,
             json_remove(cast(status as text) -> '$.source', '$.path', '$.line') as source,
             cast(status as text) ->> '$.source.path' as path, cast(status as text) ->> '$.source.line' as line
      from resource_row) r
join version_row v on v.project = r.project and v.kind = r.kind and v.name = r.name and v.version = r.version
join came_from c on c.id = v.id;

create temp table adopted as
select project, kind, name, since, source, actor, run, request, created_at,
       (select ifnull(max(origin), 0) from came_from)
       + dense_rank() over (order by source, actor, run, request, created_at) as origin
from shown where is_other and source is not null;

-- No member of a source is called so but the outermost, and text in it has its quotes escaped.
insert into origin (id, head, tail, actor, run, request, created_at)
select origin, cast(substr(source, 1, cut - 1) as blob), cast(substr(source, cut) as blob), actor, run, request, created_at
from (select origin, source, actor, run, request, created_at,
             coalesce(nullif(instr(source, ',"repository":'), 0), nullif(instr(source, ',"type":'), 0), length(source)) as cut
      from (select distinct origin, source, actor, run, request, created_at from came_from
            union all
            select distinct origin, source, actor, run, request, created_at from adopted));

-- Bodies stand last: what comes before them is read without them.
create table new_version_row (
  id      integer primary key,
  project text not null references project (name),
  kind    text not null,
  name    text not null,
  version integer not null,
  since   integer not null,
  origin  integer not null references origin (id),
  path    text,                  -- in the commit that it came from; null: it came from no file
  line    integer,
  secrets blob,                  -- the sensitive values, apart
  body    blob not null,         -- what a reader gets, less `status`: sensitive values are masked
  unique (project, kind, name, version)
) strict;

insert into new_version_row (id, project, kind, name, version, since, origin, path, line, secrets, body)
select v.id, v.project, v.kind, v.name, v.version, v.since, c.origin, c.path, c.line, v.secrets, v.body
from version_row v join came_from c on c.id = v.id
order by v.id;
drop table version_row;
alter table new_version_row rename to version_row;

create table new_resource_row (
  project     text not null references project (name),
  kind        text not null,
  name        text not null,
  since       integer not null,
  until       integer,
  version     integer not null,
  version_id  integer,           -- `version_row.id` of it, by which a read finds it
  resource_id text not null,
  digest      blob not null,
  owner       text,              -- a repository; null: the API
  path        text,              -- where it stands now in that repository
  line        integer,
  protected   integer not null,  -- 1: the label service/prune is `disabled`
  incomplete  integer not null,  -- 1: its status says what is missing
  drifted     integer not null,  -- 1: the API stored it while its owner was suspended
  origin      integer references origin (id),  -- of the source in its status; null: that of its version
  place       integer,           -- of the source in its status; null: that of its version, 1: where it stands, 0: none
  status      blob,              -- JSON, without `source`; it changes without a new version; null: {"latest":true}
  primary key (project, kind, name, since)
) strict, without rowid;

insert into new_resource_row
select r.project, r.kind, r.name, r.since, r.until, r.version, v.id, r.resource_id, r.digest, r.owner, r.path, r.line, r.protected,
       r.incomplete, r.drifted, a.origin, case when not s.is_elsewhere then null when s.path is null then 0 else 1 end,
       nullif(cast(json_remove(cast(r.status as text), '$.source') as blob), x'7b226c6174657374223a747275657d')
from resource_row r
left join version_row v on v.project = r.project and v.kind = r.kind and v.name = r.name and v.version = r.version
left join shown s on s.project = r.project and s.kind = r.kind and s.name = r.name and s.since = r.since
left join adopted a on a.project = r.project and a.kind = r.kind and a.name = r.name and a.since = r.since
order by r.project, r.kind, r.name, r.since;
drop table resource_row;
alter table new_resource_row rename to resource_row;

create index resource_by_id on resource_row (project, resource_id);
create index resource_incomplete on resource_row (owner, kind, name) where incomplete = 1;
create index resource_by_owner on resource_row (owner, project, path, kind, name, until) where owner is not null;
create index resource_ended on resource_row (until) where until is not null;

-- Who changed a resource, and when, is that of its origin; other events say it themselves.
create table new_audit_row (
  id             integer primary key,
  since          integer not null,
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
  check (origin is not null or (at is not null and actor is not null))
) strict;

insert into new_audit_row
select id, since, null, project, action, kind, name, version_before, version_after, at, actor, run, request, detail
from audit_row order by id;
drop table audit_row;
alter table new_audit_row rename to audit_row;

drop table temp.came_from;
drop table temp.shown;
drop table temp.adopted;

create view version as
select id, project, kind, name, version, origin, path, line, secrets, body
from version_row
where since <= (select value from fact where key = 'revision');

create view resource as
select project, kind, name, version, version_id, resource_id, digest, owner, path, line, protected, incomplete, drifted,
       origin, place, ifnull(status, x'7b226c6174657374223a747275657d') as status
from resource_row
where since <= (select value from fact where key = 'revision')
  and ifnull(until > (select value from fact where key = 'revision'), 1);

create view audit as
select a.id, ifnull(a.at, o.created_at) as at, a.project, ifnull(a.actor, o.actor) as actor, a.action, a.kind, a.name,
       a.version_before, a.version_after, ifnull(a.run, o.run) as run, ifnull(a.request, o.request) as request, a.detail
from audit_row a
left join origin o on o.id = a.origin
where a.since <= (select value from fact where key = 'revision');
