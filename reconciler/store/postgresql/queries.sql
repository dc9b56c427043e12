-- Every statement that the store runs on PostgreSQL, by name: those of SQLite in another dialect. Lists of keys come in
-- as one JSON array, so that a statement is prepared once.

-- name: revision
select number from fact where key = 'revision';

-- Each change of the store begins with this: so changes have one order.
-- name: lock_revision
select number from fact where key = 'revision' for update;

-- name: lock_project
select pg_advisory_xact_lock(hashtextextended('reconciler project ' || $1::text, 0));

-- name: set_session_timeouts
select set_config('lock_timeout', $1::text, false), set_config('statement_timeout', $2::text, false);

-- Migrations

-- name: server_version
select current_setting('server_version_num')::integer;

-- name: encoding
select current_setting('server_encoding');

-- name: has_migrations
select to_regclass('migration') is not null;

-- name: has_tables
select exists (select 1 from pg_tables where schemaname = current_schema());

-- name: last_migration
select number, oldest_program from migration order by number desc limit 1;

-- name: lock_migrations
select pg_advisory_xact_lock(hashtextextended('reconciler migrations', 0));

-- name: make_migrations
create table if not exists migration (
  number         bigint primary key,
  oldest_program bigint not null,  -- programs that know migrations up to this one can use the store
  applied_at     timestamptz not null default now()
);

-- name: migration
select number from migration where number = $1;

-- name: insert_migration
insert into migration (number, oldest_program) values ($1, $2);

-- name: put_revision
update fact set number = $1 where key = 'revision';

-- name: hmac_key
select bytes from fact where key = 'hmac_key';

-- Reading resources

-- Columns that make a resource as a reader gets it, for `damage.shown_row`. Its source is that of its version,
-- unless the resource has another origin or place. The columns from `secrets` on serve to find damage.
-- name: get
select v.body, r.status, o.head, o.tail,
       case when r.place is null then v.path when r.place = 1 then r.path end,
       case when r.place is null then v.line when r.place = 1 then r.line end,
       v.secrets, v.checksum, v.kind, v.name, v.version
from resource r
join version v on v.id = r.version_id
join origin o on o.id = coalesce(r.origin, v.origin)
where r.project = $1 and r.kind = $2 and r.name = $3;

-- name: rendering
select coalesce(body, ''::bytea), json_text(said)::json ->> 'hash' from rendering where project = $1 and configuration = $2;

-- name: previous_rendering
select coalesce(previous, ''::bytea), previous_hash from rendering where project = $1 and configuration = $2;

-- name: list_page
select v.body, r.status, o.head, o.tail,
       case when r.place is null then v.path when r.place = 1 then r.path end,
       case when r.place is null then v.line when r.place = 1 then r.line end,
       v.secrets, v.checksum, v.kind, v.name, v.version
from resource r
join version v on v.id = r.version_id
join origin o on o.id = coalesce(r.origin, v.origin)
where r.project = $1 and r.kind = $2 and r.name > $3
order by r.name
limit $4;

-- name: history
select v.body, r.status, o.head, o.tail,
       case when r.place is null then v.path when r.place = 1 then r.path end,
       case when r.place is null then v.line when r.place = 1 then r.line end,
       v.secrets, v.checksum, v.kind, v.name, v.version
from version v
left join resource r on r.project = v.project and r.kind = v.kind and r.name = v.name and r.version = v.version
join origin o on o.id = coalesce(r.origin, v.origin)
where v.project = $1 and v.kind = $2 and v.name = $3
order by v.version desc;

-- What a resource refers to, each with whether it is stored; `first_users` is the other direction.
-- name: uses
select f.target_kind, f.target_name,
       exists (select 1 from resource r where r.project = f.project and r.kind = f.target_kind and r.name = f.target_name)
from reference f
where f.project = $1 and f.kind = $2 and f.name = $3
order by f.target_kind, f.target_name
limit $4;

-- Planning

-- The body is read to find damage, which the digest does not show.
-- name: stored
select r.kind, r.name, r.digest, r.version, r.owner, r.path, r.line, r.protected, r.incomplete, r.drifted,
       v.body, v.secrets, v.checksum
from jsonb_array_elements($2::jsonb) k
join resource r on r.project = $1 and r.kind = k.value ->> 0 and r.name = k.value ->> 1
join version v on v.id = r.version_id;

-- name: bodies
select v.body, r.status, o.head, o.tail,
       case when r.place is null then v.path when r.place = 1 then r.path end,
       case when r.place is null then v.line when r.place = 1 then r.line end,
       v.secrets, v.checksum, v.kind, v.name, v.version
from jsonb_array_elements($2::jsonb) k
join resource r on r.project = $1 and r.kind = k.value ->> 0 and r.name = k.value ->> 1
join version v on v.id = r.version_id
join origin o on o.id = coalesce(r.origin, v.origin);

-- The newest version that a resource ever had, even if it is deleted now.
-- name: last_versions
select k.value ->> 0, k.value ->> 1, max(v.version)
from jsonb_array_elements($2::jsonb) k
join version v on v.project = $1 and v.kind = k.value ->> 0 and v.name = k.value ->> 1
group by 1, 2;

-- name: documents
select r.kind, r.name, v.body, v.secrets, v.checksum, r.owner, r.incomplete, r.status, r.resource_id, o.head, o.tail
from jsonb_array_elements($2::jsonb) k
join resource r on r.project = $1 and r.kind = k.value ->> 0 and r.name = k.value ->> 1
join version v on v.id = r.version_id
join origin o on o.id = v.origin;

-- name: configurations
select r.kind, r.name, v.body, v.secrets, v.checksum, r.owner, r.incomplete, r.status, r.resource_id, o.head, o.tail
from resource r
join version v on v.id = r.version_id
join origin o on o.id = v.origin
where r.project = $1 and r.kind = 'Configuration'
order by r.name;

-- All versions if the number is null, newest first.
-- name: versions
select version, body, secrets, checksum from version
where project = $1 and kind = $2 and name = $3 and ($4::bigint is null or version = $4)
order by version desc;

-- Configurations of which something else is to be rendered, or said, than is stored. Versions have growing numbers: the
-- greatest, the sum and the number of all that a Configuration uses differ after every change.
-- name: unrendered
with recursive used (configuration, kind, name) as (
  select name, kind, name from resource where project = $1 and kind = 'Configuration'
  union
  select u.configuration, f.target_kind, f.target_name
  from used u join reference f on f.project = $1 and f.kind = u.kind and f.name = u.name
),
made (configuration, inputs) as (
  select u.configuration,
         format('%s %s %s %s', coalesce(max(r.version_id), 0), coalesce(sum(r.version_id), 0), count(*),
                count(*) filter (where r.kind = 'Configuration' and r.incomplete = 1))
  from used u join resource r on r.project = $1 and r.kind = u.kind and r.name = u.name
  group by u.configuration
)
select m.configuration, m.inputs, coalesce((g.inputs = m.inputs and g.program = $2)::integer, 0), g.said
from made m
join resource r on r.project = $1 and r.kind = 'Configuration' and r.name = m.configuration
left join rendering g on g.project = $1 and g.configuration = m.configuration
where g.inputs is distinct from m.inputs or g.program is distinct from $2
   or json_text(r.status)::jsonb -> 'rendering' is distinct from json_text(g.said)::jsonb
order by m.configuration;

-- name: past_routes
select configuration, past from past_route where project = $1 order by configuration;

-- This reads every version of a project: a changed type is rare, and an index by type would slow down every write.
-- Canonical JSON has one spelling for each name. A search for many texts in a long body costs far more than reading it,
-- and users choose how many there are: for more than 64 all versions are returned.
-- name: versions_naming
select v.kind, v.name, v.version, v.body, v.secrets, v.checksum
from version v
where v.project = $1
  and v.kind in (select jsonb_array_elements_text($2::jsonb))
  and (jsonb_array_length($3::jsonb) > 64
       or exists (select 1 from jsonb_array_elements_text($3::jsonb) n (value)
                  where position(convert_to(n.value, 'UTF8') in v.body) > 0))
order by v.id;

-- name: referrers
select f.target_kind, f.target_name, f.kind, f.name
from jsonb_array_elements($2::jsonb) k
join reference f on f.project = $1 and f.target_kind = k.value ->> 0
                      and f.target_name = k.value ->> 1;

-- name: taken_ids
select r.resource_id, r.kind, r.name
from jsonb_array_elements_text($2::jsonb) k (value)
join resource r on r.project = $1 and r.resource_id = k.value;

-- Resources that a repository owns and its head does not contain. An invalid document with kind and name counts.
-- name: owned_unwanted
select r.kind, r.name, r.digest, r.version, r.owner, r.path, r.line, r.protected, r.incomplete, r.drifted
from resource r
where r.owner = $1 and r.project = $2
  and not exists (select 1 from wanted w where w.repository = $1 and w.kind = r.kind and w.name = r.name)
order by r.path nulls first, r.kind, r.name;

-- name: owned
select r.kind, r.name, r.digest, r.version, r.owner, r.path, r.line, r.protected, r.incomplete, r.drifted
from resource r
where r.owner = $1 and r.project = $2
order by r.path nulls first, r.kind, r.name;

-- name: owned_count
select count(*) from resource where owner = $1 and project = $2;

-- The resources of a repository whose stored path is one of these files, or below a folder of that name. ('0' follows
-- '/', so the range has every path that begins with the folder.)
-- name: standing_at
select k.value, r.kind, r.name
from jsonb_array_elements_text($3::jsonb) k (value)
join resource r on r.owner = $1 and r.project = $2 and r.path = k.value
union all
select k.value, r.kind, r.name
from jsonb_array_elements_text($3::jsonb) k (value)
join resource r on r.owner = $1 and r.project = $2 and r.path > k.value || '/' and r.path < k.value || '0';

-- name: wanted_of
select w.repository, w.path, w.position, w.kind, w.name, w.digest, w.unconverged
from jsonb_array_elements($2::jsonb) k
join wanted w on w.repository = $1 and w.kind = k.value ->> 0
                   and w.name = k.value ->> 1;

-- Those of these keys that a repository of the project wants and the store does not have.
-- name: unmet
select w.repository, w.kind, w.name
from jsonb_array_elements($2::jsonb) k
join repository p on p.project = $1
join wanted w on w.repository = p.name and w.kind = k.value ->> 0 and w.name = k.value ->> 1
where not exists (select 1 from resource r where r.project = $1 and r.kind = w.kind and r.name = w.name);

-- name: wanted_count
select count(*) from wanted where repository = $1;

-- name: wanted_in
select w.repository, w.path, w.position, w.kind, w.name, w.digest, w.unconverged
from jsonb_array_elements_text($2::jsonb) k (value)
join wanted w on w.repository = $1 and w.path = k.value;

-- name: blobs
select f.path, f.blob
from jsonb_array_elements_text($2::jsonb) k (value)
join source_file f on f.repository = $1 and f.path = k.value;

-- Files to judge again: a document is not stored as wanted, or the stored resource no longer fits its type.
-- name: unconverged
select path from wanted where repository = $1 and unconverged is not null
union
select w.path
from resource r
join wanted w on w.repository = $1 and w.kind = r.kind and w.name = r.name
where r.owner = $1 and r.incomplete = 1
order by 1;

-- name: suspended_at
select repository from suspension where until is null or until > $1;

-- name: waits_for_store
select exists (select 1 from wanted
               where repository = $1 and unconverged is not null and unconverged = 'waiting')
    or exists (select 1 from resource where owner = $1 and incomplete = 1)
    or exists (select 1 from held where repository = $1 and why = 'in-use');

-- name: pruned_since
select coalesce(max(owned), 0), coalesce(sum(deleted), 0)::bigint from prune_ledger where repository = $1 and at > $2;

-- name: stays
select kind, name, why from held where repository = $1;

-- name: approval
select repository, commit_id, actor, at from approval where repository = $1;

-- name: approved
select kind, name from approved where repository = $1;

-- Resources of a repository without lineage: the commit that changed their file is unknown.
-- name: without_lineage
select r.kind, r.name, r.version, v.origin, v.path, r.origin, o.id,
       case when r.place is null then v.path when r.place = 1 then r.path end
from resource r
join version v on v.id = r.version_id
join origin o on o.id = coalesce(r.origin, v.origin)
where r.owner = $1 and r.project = $2
  and json_text(o.head || o.tail)::json ->> 'repository' = $1
  and json_text(o.head || o.tail)::json -> 'changedBy' is null
order by r.path nulls first, r.kind, r.name
limit $3;

-- name: origin
select id, head, tail, actor, run, request, created_at from origin where id = $1;

-- name: vacant_files
select path, vacant from source_file
where repository = $1 and vacant is not null
order by path;

-- name: given
select path, given from source_file
where repository = $1 and given is not null
order by path;

-- The resources of the applied head in these files, or in files below folders of these names.
-- name: wanted_at
select k.value, w.kind, w.name
from jsonb_array_elements_text($2::jsonb) k (value)
join wanted w on w.repository = $1 and w.path = k.value
where w.kind is not null and w.name is not null
union all
select k.value, w.kind, w.name
from jsonb_array_elements_text($2::jsonb) k (value)
join wanted w on w.repository = $1 and w.path > k.value || '/' and w.path < k.value || '0'
where w.kind is not null and w.name is not null;

-- name: files_of
select repository, path, blob, vacant, given from source_file where repository = $1 order by path;

-- name: all_wanted
select repository, path, position, kind, name, digest, unconverged from wanted where repository = $1
order by path, position;

-- Repositories and runs

-- name: held_count
select count(*) from held where repository = $1 and why = 'held';

-- name: held_first
select kind, name from held where repository = $1 and why = 'held' order by kind, name limit $2;

-- name: repository
select name, project, fingerprint, commit_id, tree, head, state, message, since, origin, approvable
from repository where name = $1;

-- name: suspension
select repository, reason, actor, since, until from suspension where repository = $1;

-- The number of resources that were stored as the head wants and no longer are, plus those that were not stored as the
-- head wants and changed since.
-- name: drift
select (select count(*)
        from wanted w
        left join resource r on r.project = $2 and r.kind = w.kind and r.name = w.name
        where w.repository = $1 and w.unconverged is null and r.digest is distinct from w.digest)
     + (select count(*)
        from resource r
        where r.owner = $1 and r.project = $2 and r.drifted = 1
          and not exists (select 1 from wanted w
                          where w.repository = $1 and w.kind = r.kind and w.name = r.name
                            and (w.unconverged is null or w.digest = r.digest)));

-- name: repositories
select name, project, fingerprint, commit_id, tree, head, state, message, since, origin, approvable
from repository order by name;

-- name: run
select id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at, finished_at,
       duration_ms, flows
from run where id = $1;

-- name: runs
select id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at, finished_at,
       duration_ms, flows
from run order by id desc limit $1;

-- The newest runs of each project, and of these the newest: otherwise all their runs would be read and sorted.
-- name: runs_of_projects
select r.id, r.project, r.repository, r.trigger, r.actor, r.commit_id, r.outcome, r.message, r.counts, r.rewound,
       r.started_at, r.finished_at, r.duration_ms, r.flows
from jsonb_array_elements_text($1::jsonb) k (value)
cross join lateral (select * from run n where n.project = k.value order by n.id desc limit $2) r
order by r.id desc limit $2;

-- name: runs_of_repository
select id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at, finished_at,
       duration_ms, flows
from run where repository = $1 order by id desc limit $2;

-- A repository may have filled another project before.
-- name: runs_of_repository_in_projects
select id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at, finished_at,
       duration_ms, flows
from run
where repository = $1 and project in (select k.value from jsonb_array_elements_text($2::jsonb) k (value))
order by id desc limit $3;

-- name: last_run
select id from run where repository = $1 order by id desc limit 1;

-- name: run_statuses
select run, ordinal, kind, name, status, reason, path, line, notes from run_status where run = $1 order by ordinal;

-- The events of a run are found by the names in its statuses, which are indexed.
-- name: run_changes
select s.kind, s.name, s.status, s.path, s.line, a.version_before, a.version_after
from run r
join run_status s on s.run = r.id
join audit a on a.name = s.name and a.kind = s.kind and a.project = r.project
left join origin o on o.id = a.origin
where r.id = $1 and coalesce(a.run, o.run) = r.id and a.version_before is distinct from a.version_after
order by s.ordinal
limit $2;

-- Writing

-- New versions get the ids after this one.
-- name: last_version
select coalesce(max(id), 0) from version;

-- An origin with the same id must be equal. If it is not, this sets `head` to null, which the table refuses.
-- name: insert_origin
insert into origin (id, head, tail, actor, run, request, created_at) values ($1, $2, $3, $4, $5, $6, $7)
on conflict (id) do update set head = null
where (origin.head, origin.tail, origin.actor, origin.run, origin.request, origin.created_at)
      is distinct from (excluded.head, excluded.tail, excluded.actor, excluded.run, excluded.request, excluded.created_at);

-- name: insert_version
insert into version (id, project, kind, name, version, body, secrets, origin, path, line, checksum)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- An index refuses another resource with the same id.
-- name: put_head
insert into resource (project, kind, name, version, resource_id, digest, owner, path, line, protected, incomplete, status,
                      drifted, origin, place, version_id)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
        coalesce($16, (select id from version where project = $1 and kind = $2 and name = $3 and version = $4)))
on conflict (project, kind, name) do update
set version = excluded.version, resource_id = excluded.resource_id, digest = excluded.digest, owner = excluded.owner,
    path = excluded.path, line = excluded.line, protected = excluded.protected, incomplete = excluded.incomplete,
    status = excluded.status, drifted = excluded.drifted, origin = excluded.origin, place = excluded.place,
    version_id = excluded.version_id;

-- name: put_head_status
update resource set incomplete = $1, status = $2, digest = coalesce($3, digest) where project = $4 and kind = $5 and name = $6;

-- Nothing is written unless the Configuration still uses what it was made of, and what was said before still is. A
-- rendering stays in force while the next ones fail, and goes with the last one that is said of. The one before another
-- text is kept, and goes with it.
-- name: put_rendering
insert into rendering (project, configuration, program, inputs, said, body)
select $1::text, $2::text, $3::text, $4::text, $5::bytea, $6::bytea
where $4 = (
  with recursive used (kind, name) as (
    select 'Configuration'::text collate "C", $2::text collate "C"
    union
    select f.target_kind, f.target_name
    from used u join reference f on f.project = $1 and f.kind = u.kind and f.name = u.name
  )
  select format('%s %s %s %s', coalesce(max(r.version_id), 0), coalesce(sum(r.version_id), 0), count(*),
                count(*) filter (where r.kind = 'Configuration' and r.incomplete = 1))
  from used u join resource r on r.project = $1 and r.kind = u.kind and r.name = u.name)
and $7::bytea is not distinct from (select said from rendering where project = $1 and configuration = $2)
on conflict (project, configuration) do update
set program = excluded.program, inputs = excluded.inputs, said = excluded.said,
    body = case when excluded.said is not null then coalesce(excluded.body, rendering.body) end,
    previous = case when excluded.said is null then null
                    when excluded.body <> rendering.body then rendering.body else rendering.previous end,
    previous_hash = case when excluded.said is null then null
                         when excluded.body <> rendering.body then json_text(rendering.said)::json ->> 'hash'
                         else rendering.previous_hash end;

-- name: put_rendering_status
update resource set status = $1
where project = $3 and kind = 'Configuration' and name = $4 and status = $2 and status <> $1;

-- name: forget_rendering
delete from rendering where project = $1 and configuration = $3 and $2::text = 'Configuration';

-- name: forget_renderings
delete from rendering where project = $1;

-- name: put_past_route
insert into past_route (project, configuration, is_in_force, past) values ($1, $2, $3, $4)
on conflict (project, configuration) do update set is_in_force = excluded.is_in_force, past = excluded.past;

-- name: forget_past_route
delete from past_route where project = $1 and configuration = $2;

-- name: rewrite_version
update version set body = $1, secrets = $2, checksum = $3
where project = $4 and kind = $5 and name = $6 and version = $7;

-- Redacting

-- This reads every run of the project, since quoted text has no index.
-- name: quotes
select 'reason', s.run, s.ordinal, s.reason
from run_status s join run r on r.id = s.run
where exists (select 1 from jsonb_array_elements_text($2::jsonb) t (value) where position(t.value in s.reason) > 0)
  and r.project = $1
union all
select 'notes', s.run, s.ordinal, s.notes
from run_status s join run r on r.id = s.run
where exists (select 1 from jsonb_array_elements_text($2::jsonb) t (value) where position(t.value in s.notes) > 0)
  and r.project = $1
union all
select 'message', id, 0, message from run
where exists (select 1 from jsonb_array_elements_text($2::jsonb) t (value) where position(t.value in message) > 0)
  and project = $1
union all
select 'detail', id::text, 0, detail from audit
where exists (select 1 from jsonb_array_elements_text($2::jsonb) t (value) where position(t.value in detail) > 0)
  and project = $1
order by 1, 2, 3;

-- name: rewrite_reason
update run_status set reason = $1 where run = $2 and ordinal = $3;

-- name: rewrite_notes
update run_status set notes = $1 where run = $2 and ordinal = $3;

-- name: rewrite_message
update run set message = $1 where id = $2;

-- name: rewrite_detail
update audit set detail = $1, salt = null where id = $2::bigint;

-- This fact exists as long as the files hold overwritten secrets.
-- name: traces
select number from fact where key = 'traces';

-- name: put_traces
insert into fact (key, number) values ('traces', $1) on conflict (key) do update set number = excluded.number;

-- Unless something else was overwritten meanwhile.
-- name: forget_traces
delete from fact where key = 'traces' and number = $1;

-- name: kept_rows
select coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_user_tables
where relname in (select jsonb_array_elements_text($1::jsonb)) and schemaname = current_schema();

-- name: explain_head
update resource set origin = $1
where project = $2 and kind = $3 and name = $4 and version = $5 and origin is not distinct from $6;

-- name: explain_version
update version set origin = $1 where project = $2 and kind = $3 and name = $4 and version = $5 and origin = $6;

-- name: forget_references
delete from reference where project = $1 and kind = $2 and name = $3;

-- name: insert_reference
insert into reference (project, kind, name, target_kind, target_name) values ($1, $2, $3, $4, $5);

-- name: remove_head
delete from resource where project = $1 and kind = $2 and name = $3;

-- name: insert_audit
insert into audit (id, link, at, project, actor, action, kind, name, version_before, version_after, run, request, detail,
                   address, salt)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- The applied head of a repository, and resources that stay although it does not hold them

-- name: forget_files
delete from source_file where repository = $1;

-- name: forget_all_wanted
delete from wanted where repository = $1;

-- name: forget_file
delete from source_file where repository = $1 and path = $2;

-- name: forget_wanted
delete from wanted where repository = $1 and path = $2;

-- name: put_file
insert into source_file (repository, path, blob, vacant, given) values ($1, $2, $3, $4, $5)
on conflict (repository, path) do update set blob = excluded.blob, vacant = excluded.vacant, given = excluded.given;

-- name: put_wanted
insert into wanted (repository, path, position, kind, name, digest, unconverged) values ($1, $2, $3, $4, $5, $6, $7)
on conflict (repository, path, position) do update
set kind = excluded.kind, name = excluded.name, digest = excluded.digest, unconverged = excluded.unconverged;

-- name: forget_held
delete from held where repository = $1;

-- name: put_held
insert into held (repository, kind, name, why) values ($1, $2, $3, $4) on conflict do nothing;

-- name: insert_run
insert into run (id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at,
                 finished_at, duration_ms, flows)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- name: insert_run_status
insert into run_status (run, ordinal, kind, name, status, reason, path, line, notes)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: put_repository
insert into repository (name, project, fingerprint, commit_id, tree, head, state, message, since, origin, approvable)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
on conflict (name) do update
set project = excluded.project, fingerprint = excluded.fingerprint, commit_id = excluded.commit_id,
    tree = excluded.tree, head = excluded.head, state = excluded.state, message = excluded.message,
    since = excluded.since, origin = excluded.origin, approvable = excluded.approvable;

-- name: put_suspension
insert into suspension (repository, reason, actor, since, until) values ($1, $2, $3, $4, $5)
on conflict (repository) do update
set reason = excluded.reason, actor = excluded.actor, since = excluded.since, until = excluded.until;

-- name: forget_suspension
delete from suspension where repository = $1;

-- name: forget_pruned
delete from prune_ledger where repository = $1 and at <= $2;

-- name: insert_pruned
insert into prune_ledger (repository, at, owned, deleted) values ($1, $2, $3, $4);

-- name: forget_approval
delete from approval where repository = $1;

-- name: forget_approved
delete from approved where repository = $1;

-- name: can_approve
select exists (select 1 from repository where name = $1 and head = $2 and approvable = 1);

-- name: put_approval
insert into approval (repository, commit_id, actor, at) values ($1, $2, $3, $4);

-- name: approve_held
insert into approved (repository, kind, name)
select repository, kind, name from held where repository = $1 and why = 'held';

-- name: forget_ledger
delete from prune_ledger where repository = $1;

-- name: drifting_statuses
select status, project, kind, name from resource
where owner = $1 and position('"drift":'::bytea in status) > 0;

-- name: put_status
update resource set status = $1 where project = $2 and kind = $3 and name = $4;

-- name: release_resources
update resource set owner = null, path = null, line = null, drifted = 0, place = 0 where owner = $1;

-- name: remove_repository
delete from repository where name = $1;

-- People, keys and roles

-- name: all_projects
select name, created_at from project order by name;

-- name: all_users
select id, name, created_at, display_name, organization_admin, password, issuer, subject, email, losses
from "user" order by name;

-- name: all_members
select project, "user", role from member order by project, "user";

-- name: all_keys
select id, name, prefix, digest, project, role, scopes, created_at, created_by, expires_at, last_used_at, owner
from api_key order by id;

-- name: put_project
insert into project (name, created_at) values ($1, $2) on conflict do nothing;

-- name: put_user
insert into "user" (id, name, created_at, display_name, organization_admin, password, issuer, subject, email, losses)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (id) do update
set name = excluded.name, display_name = excluded.display_name, organization_admin = excluded.organization_admin,
    password = excluded.password, issuer = excluded.issuer, subject = excluded.subject, email = excluded.email,
    losses = excluded.losses;

-- name: remove_user
delete from "user" where id = $1;

-- name: put_member
insert into member (project, "user", role) values ($1, $2, $3)
on conflict (project, "user") do update set role = excluded.role;

-- name: remove_member
delete from member where project = $1 and "user" = $2;

-- name: insert_key
insert into api_key (id, name, prefix, digest, project, role, scopes, created_at, created_by, expires_at, last_used_at, owner)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- name: remove_key
delete from api_key where id = $1;

-- Several replicas may have seen a key.
-- name: touch_key
update api_key set last_used_at = $1 where id = $2 and coalesce(last_used_at, '') < $1;

-- name: all_invitations
select id, project, role, created_at, created_by, expires_at, digest, email from invitation order by id;

-- name: insert_invitation
insert into invitation (id, project, role, created_at, created_by, expires_at, digest, email) values ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: remove_invitation
delete from invitation where id = $1;

-- name: auth_type
select text from fact where key = 'auth_type';

-- name: directory_number
select coalesce((select number from fact where key = 'directory'), 0);

-- name: count_amendment
insert into fact (key, number) values ('directory', 1) on conflict (key) do update set number = fact.number + 1;

-- name: put_auth_type
insert into fact (key, text) values ('auth_type', $1) on conflict (key) do update set text = excluded.text;

-- Resources that need attention

-- name: incomplete_configurations
select name from resource
where project = $1 and kind = 'Configuration' and incomplete = 1
order by name;

-- name: incomplete_others
select kind, name from resource
where project = $1 and kind <> 'Configuration' and incomplete = 1
order by kind, name;

-- name: stale_configurations
select configuration from past_route where project = $1 and is_in_force = 1 order by configuration;

-- Resources that others refer to and that may be deprecated: the text may be elsewhere in a document.
-- name: deprecated_in_use
select r.kind, r.name, v.body
from (select distinct target_kind, target_name from reference where project = $1) f
join resource r on r.project = $1 and r.kind = f.target_kind and r.name = f.target_name
join version v on v.id = r.version_id
where position('"deprecated":true'::bytea in v.body) > 0
order by r.kind, r.name;

-- name: users
select kind, name from reference
where project = $1 and target_kind = $2 and target_name = $3
order by kind, name;

-- name: first_users
select kind, name from reference
where project = $1 and target_kind = $2 and target_name = $3
order by kind, name
limit $4;

-- Checksums

-- name: examined
select id, project, kind, name, version, body, secrets, checksum from version where id > $1 order by id limit $2;

-- The audit

-- Numbers of events are never used again, so a number always names the same event.
-- name: last_event
select greatest(coalesce((select max(id) from audit), 0), (select last_event from audit_anchor where id = 1));

-- name: event
select a.id, coalesce(a.at, o.created_at), a.project, coalesce(a.actor, o.actor), a.action, a.kind, a.name, a.version_before,
       a.version_after, coalesce(a.run, o.run), coalesce(a.request, o.request), a.detail, a.address, a.salt
from audit a
left join origin o on o.id = a.origin
where a.id = $1::bigint;

-- name: last_link
select number, hash from audit_link where number = (select max(number) from audit_link);

-- name: insert_link
insert into audit_link (number, hash, events, first_at, last_at, address, content, checked) values ($1, $2, $3, $4, $5, $6, $7, 1);

-- name: insert_rewrite
insert into audit_rewrite (event, link, before, after) values ($1, $2, $3, $4);

-- Newest first: links in the order of the commits, and the events of each by their numbers. `cross join` fixes the
-- order of the loops, so nothing is sorted. The arguments are the position to begin after, the fields of `AuditWanted`
-- in their order, and the limit. An event of a key has the key's id as its name, and the key's name in the detail.
-- name: audit_events
select l.number, a.id, coalesce(a.at, o.created_at) as at, a.project, coalesce(a.actor, o.actor) as actor, a.action,
       a.kind, a.name, a.version_before, a.version_after, coalesce(a.run, o.run), coalesce(a.request, o.request),
       a.detail, coalesce(a.address, l.address)
from audit_link l
join audit a on a.link = l.number
left join origin o on o.id = a.origin
where l.number <= $1 and (l.number < $1 or a.id < $2)
  and ($8::text is null or l.last_at >= $8) and ($9::text is null or l.first_at < $9)
  and ($3::jsonb is null or a.project in (select jsonb_array_elements_text($3::jsonb)))
  and ($4::text is null or a.kind = $4) and ($7::text is null or a.action = $7)
  and ($6::text is null or coalesce(a.actor, o.actor) = $6)
  and ($8::text is null or coalesce(a.at, o.created_at) >= $8)
  and ($9::text is null or coalesce(a.at, o.created_at) < $9)
  and ($5::text is null or a.name = $5 or ($4 = 'Key' and json_member(a.detail, 'name') = $5))
order by a.link desc, a.id desc
limit $10;

-- One version in the form of its history.
-- name: version_shown
select v.body, r.status, o.head, o.tail,
       case when r.place is null then v.path when r.place = 1 then r.path end,
       case when r.place is null then v.line when r.place = 1 then r.line end,
       v.secrets, v.checksum, v.kind, v.name, v.version
from version v
left join resource r on r.project = v.project and r.kind = v.kind and r.name = v.name and r.version = v.version
join origin o on o.id = coalesce(r.origin, v.origin)
where v.project = $1 and v.kind = $2 and v.name = $3 and v.version = $4;

-- Retention

-- name: last_event_until
select coalesce(max(id), 0) from audit where link <= $1;

-- name: put_anchor
update audit_anchor
set number = $1, hash = $2, events = events + $3, last_event = greatest(last_event, $4), proof = $5
where id = 1;

-- name: remove_links
delete from audit_link where number <= $1;

-- name: remove_rewrites
delete from audit_rewrite where link <= $1;

-- name: remove_events
delete from audit where link between 1 and $1;

-- Verifying

-- name: audit_anchor
select number, hash, events, last_event, proof from audit_anchor where id = 1;

-- All of them for a negative limit.
-- name: links
select number, events, first_at, last_at, address, hash, checked, content from audit_link
order by number limit nullif($1::bigint, -1);

-- name: link_hash
select hash from audit_link where number = $1;

-- The events of one link in order. A redacted event has two hashes: the one that its own link covers, and the one after
-- the last redaction.
-- name: chained_events
select a.id, coalesce(a.at, o.created_at), a.project, coalesce(a.actor, o.actor), a.action, a.kind, a.name,
       a.version_before, a.version_after, coalesce(a.run, o.run), coalesce(a.request, o.request), a.detail, a.address, a.salt,
       (select w.before from audit_rewrite w where w.event = a.id order by w.link limit 1),
       (select w.after from audit_rewrite w where w.event = a.id order by w.link desc limit 1)
from audit a
left join origin o on o.id = a.origin
where a.link = $1
order by a.id;

-- Events after the last link belong to a link that was removed.
-- name: first_link_of_events_after
select link from audit where link > $1 order by link limit 1;

-- name: rewrites_of_link
select event, before, after from audit_rewrite where link = $1 order by event;

-- name: rewrites_in_all
select count(*) from audit_rewrite;

-- name: redaction_of_link
select id from audit where link = $1 and action = 'redacted' order by id limit 1;

-- An event that was inserted into a removed link, or into none.
-- name: stray_event
select a.id
from audit_anchor n join audit a on a.link <= n.number
where n.id = 1 and (a.link < 1 or a.id > n.last_event)
order by a.link, a.id
limit 1;

-- Replicas

-- The lease of a record, which nobody may take over before the end of the transaction. Its holder may renew it: that
-- changes no key.
-- name: lease_of_record
select number from lease where repository = $1 and number = $2 for key share;

-- name: put_replica
insert into replica (name, url, version, process, settings, beat) values ($1, $2, $3, $4, $5, clock_timestamp())
on conflict (name) do update set
  url = excluded.url, version = excluded.version, process = excluded.process, settings = excluded.settings,
  beat = excluded.beat;

-- name: beat
update replica set url = $2, version = $3, settings = $5, beat = clock_timestamp() where name = $1 and process = $4;

-- name: has_replica
select exists (select from replica where name = $1);

-- name: forget_replica
delete from replica where name = $1 and process = $2;

-- name: replica_ages
select name, clock_timestamp() - beat from replica order by name;

-- name: forget_replicas
delete from replica where beat < clock_timestamp() - $1::interval;

-- name: living_replicas
select name, url, version, process, settings from replica
where beat > clock_timestamp() - make_interval(secs => $1::float8)
order by name;

-- name: renew_leases
update lease set until = clock_timestamp() + make_interval(secs => $2::float8) where holder = $1;

-- name: held_leases
select repository, number, holder from lease where holder is not null and until > clock_timestamp() order by repository;

-- Takes are one after the other.
-- name: lock_takes
select pg_advisory_xact_lock(hashtextextended('reconciler leases', 0));

-- name: has_other_holder
select exists (
  select from lease where repository = any($1::text[]) and holder <> $2 and until > clock_timestamp()
);

-- Those of them that are there, and those that no commit of a run holds.
-- name: count_leases
select count(*) from lease where repository = any($1::text[]);

-- name: lock_leases
select repository from lease where repository = any($1::text[]) order by repository for update skip locked;

-- name: take_leases
insert into lease (repository, holder, number, until)
select one, $2, 1, clock_timestamp() + make_interval(secs => $3::float8) from unnest($1::text[]) one
on conflict (repository) do update set holder = excluded.holder, number = lease.number + 1, until = excluded.until
returning repository, number;

-- name: release_leases
update lease set holder = null, until = clock_timestamp() where holder = $1 and repository = any($2::text[]);

-- name: release_all_leases
update lease set holder = null, until = clock_timestamp() where holder = $1;

-- Sessions and notifications

-- name: flow_key
select bytes from fact where key = 'flow_key';

-- name: make_flow_key
insert into fact (key, bytes) values ('flow_key', $1) on conflict (key) do nothing;

-- name: all_sessions
select digest, "user", losses, created_at, seen_at, id_token from session order by created_at, digest;

-- name: session
select digest, "user", losses, created_at, seen_at, id_token from session where digest = $1;

-- name: insert_session
insert into session (digest, "user", losses, created_at, seen_at, id_token) values ($1, $2, $3, $4, $5, $6);

-- Several replicas may have seen a session.
-- name: touch_session
update session set seen_at = $1 where digest = $2 and seen_at < $1;

-- name: remove_session
delete from session where digest = $1;

-- The number of the last change of the notifications.
-- name: noted
select coalesce((select number from fact where key = 'notifications'), 0);

-- It locks the number, so changes have one order.
-- name: count_noted
insert into fact (key, number) values ('notifications', 1)
on conflict (key) do update set number = fact.number + 1
returning number;

-- name: all_notifications
select id, body from notification order by id;

-- name: put_notification
insert into notification (id, body) values ($1, $2) on conflict (id) do update set body = excluded.body;

-- name: remove_notification
delete from notification where id = $1;

-- name: all_notification_statuses
select notification, "user", status from notification_status order by notification, "user";

-- name: put_notification_status
insert into notification_status (notification, "user", status) values ($1, $2, $3)
on conflict (notification, "user") do update set status = excluded.status;

-- name: remove_notification_status
delete from notification_status where notification = $1 and "user" = $2;

-- name: remove_notification_statuses
delete from notification_status where notification = $1;

-- name: remove_read_statuses
delete from notification_status where notification = $1 and status = 'read';

-- Notices

-- The last statement of a transaction but for others of its kind: the row is locked until the end.
-- name: insert_notice
with counted as (
  update notice_count set number = number + 1 returning number
), told as (
  insert into notice (number, at, writer, kind, body)
  select number, clock_timestamp(), $1, $2, $3 from counted
  returning number
)
select pg_notify('reconciler', number::text) from told;

-- name: last_notice
select (select number from notice_count), (select number from fact where key = 'revision');

-- name: notices_after
select number, writer, kind, body from notice where number > $1 order by number limit $2;

-- name: forget_notices
delete from notice where at < clock_timestamp() - make_interval(secs => $1);
