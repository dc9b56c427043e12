-- Every statement that the store runs, by name. Lists of keys come in as one JSON array, so that a statement is
-- prepared once; `cross join` makes that array the outer loop, whatever the engine guesses of its size.

-- name: revision
select value from fact where key = 'revision';

-- name: put_revision
update fact set value = ? where key = 'revision';

-- name: hmac_key
select value from fact where key = 'hmac_key';

-- Reading resources

-- Columns that make a resource as a reader gets it, for `database.shown_row`. Its source is that of its version,
-- unless the resource has another origin or place. The columns from `secrets` on serve to find damage.
-- name: get
select v.body, r.status, o.head, o.tail,
       case when r.place is null then v.path when r.place = 1 then r.path end,
       case when r.place is null then v.line when r.place = 1 then r.line end,
       v.secrets, v.checksum, v.kind, v.name, v.version
from resource r
join version v on v.id = r.version_id
join origin o on o.id = ifnull(r.origin, v.origin)
where r.project = ? and r.kind = ? and r.name = ?;

-- name: rendering
select ifnull(body, x''), cast(said as text) ->> '$.hash' from rendering where project = ? and configuration = ?;

-- name: previous_rendering
select ifnull(previous, x''), previous_hash from rendering where project = ? and configuration = ?;

-- name: list_page
select v.body, r.status, o.head, o.tail,
       case when r.place is null then v.path when r.place = 1 then r.path end,
       case when r.place is null then v.line when r.place = 1 then r.line end,
       v.secrets, v.checksum, v.kind, v.name, v.version
from resource r
join version v on v.id = r.version_id
join origin o on o.id = ifnull(r.origin, v.origin)
where r.project = ? and r.kind = ? and r.name > ?
order by r.name
limit ?;

-- name: history
select v.body, r.status, o.head, o.tail,
       case when r.place is null then v.path when r.place = 1 then r.path end,
       case when r.place is null then v.line when r.place = 1 then r.line end,
       v.secrets, v.checksum, v.kind, v.name, v.version
from version v
left join resource r on r.project = v.project and r.kind = v.kind and r.name = v.name and r.version = v.version
join origin o on o.id = ifnull(r.origin, v.origin)
where v.project = ? and v.kind = ? and v.name = ?
order by v.version desc;

-- What a resource refers to, each with whether it is stored; `first_users` is the other direction.
-- name: uses
select f.target_kind, f.target_name,
       exists (select 1 from resource r where r.project = f.project and r.kind = f.target_kind and r.name = f.target_name)
from reference f
where f.project = ? and f.kind = ? and f.name = ?
order by f.target_kind, f.target_name
limit ?;

-- Planning

-- The body is read to find damage, which the digest does not show.
-- name: stored
select r.kind, r.name, r.digest, r.version, r.owner, r.path, r.line, r.protected, r.incomplete, r.drifted,
       v.body, v.secrets, v.checksum
from json_each(?2) k
cross join resource r on r.project = ?1 and r.kind = json_extract(k.value, '$[0]') and r.name = json_extract(k.value, '$[1]')
join version v on v.id = r.version_id;

-- name: bodies
select v.body, r.status, o.head, o.tail,
       case when r.place is null then v.path when r.place = 1 then r.path end,
       case when r.place is null then v.line when r.place = 1 then r.line end,
       v.secrets, v.checksum, v.kind, v.name, v.version
from json_each(?2) k
cross join resource r on r.project = ?1 and r.kind = json_extract(k.value, '$[0]') and r.name = json_extract(k.value, '$[1]')
join version v on v.id = r.version_id
join origin o on o.id = ifnull(r.origin, v.origin);

-- The newest version that a resource ever had, even if it is deleted now.
-- name: last_versions
select json_extract(k.value, '$[0]'), json_extract(k.value, '$[1]'), max(v.version)
from json_each(?2) k
cross join version v on v.project = ?1 and v.kind = json_extract(k.value, '$[0]') and v.name = json_extract(k.value, '$[1]')
group by 1, 2;

-- name: documents
select r.kind, r.name, v.body, v.secrets, v.checksum, r.owner, r.incomplete, r.status, r.resource_id, o.head, o.tail
from json_each(?2) k
cross join resource r on r.project = ?1 and r.kind = json_extract(k.value, '$[0]') and r.name = json_extract(k.value, '$[1]')
join version v on v.id = r.version_id
join origin o on o.id = v.origin;

-- name: configurations
select r.kind, r.name, v.body, v.secrets, v.checksum, r.owner, r.incomplete, r.status, r.resource_id, o.head, o.tail
from resource r
join version v on v.id = r.version_id
join origin o on o.id = v.origin
where r.project = ? and r.kind = 'Configuration'
order by r.name;

-- All versions if the number is null, newest first.
-- name: versions
select version, body, secrets, checksum from version
where project = ?1 and kind = ?2 and name = ?3 and (?4 is null or version = ?4)
order by version desc;

-- Configurations of which something else is to be rendered, or said, than is stored. Versions have growing numbers: the
-- greatest, the sum and the number of all that a Configuration uses differ after every change.
-- name: unrendered
with recursive used (configuration, kind, name) as (
  select name, kind, name from resource where project = ?1 and kind = 'Configuration'
  union
  select u.configuration, f.target_kind, f.target_name
  from used u cross join reference f on f.project = ?1 and f.kind = u.kind and f.name = u.name
),
made (configuration, inputs) as (
  select u.configuration,
         printf('%d %d %d %d', max(r.version_id), sum(r.version_id), count(*),
                sum(r.kind = 'Configuration' and r.incomplete = 1))
  from used u cross join resource r on r.project = ?1 and r.kind = u.kind and r.name = u.name
  group by u.configuration
)
select m.configuration, m.inputs, ifnull(g.inputs = m.inputs and g.program = ?2, 0), g.said
from made m
cross join resource r on r.project = ?1 and r.kind = 'Configuration' and r.name = m.configuration
left join rendering g on g.project = ?1 and g.configuration = m.configuration
where g.inputs is not m.inputs or g.program is not ?2
   or (cast(r.status as text) -> '$.rendering') is not cast(g.said as text)
order by m.configuration;

-- name: past_routes
select configuration, past from past_route where project = ? order by configuration;

-- This reads every version of a project: a changed type is rare, and an index by type would slow down every write.
-- Canonical JSON has one spelling for each name. A search for many texts in a long body costs far more than reading it,
-- and users choose how many there are: for more than 64 all versions are returned.
-- name: versions_naming
select v.kind, v.name, v.version, v.body, v.secrets, v.checksum
from version v not indexed
where v.project = ?1
  and v.kind in (select k.value from json_each(?2) k)
  and (json_array_length(?3) > 64
       or exists (select 1 from json_each(?3) n where instr(v.body, cast(n.value as blob)) > 0))
order by v.id;

-- name: referrers
select f.target_kind, f.target_name, f.kind, f.name
from json_each(?2) k
cross join reference f on f.project = ?1 and f.target_kind = json_extract(k.value, '$[0]')
                      and f.target_name = json_extract(k.value, '$[1]');

-- name: taken_ids
select r.resource_id, r.kind, r.name
from json_each(?2) k
cross join resource r on r.project = ?1 and r.resource_id = k.value;

-- Resources that a repository owns and its head does not contain. An invalid document with kind and name counts.
-- name: owned_unwanted
select r.kind, r.name, r.digest, r.version, r.owner, r.path, r.line, r.protected, r.incomplete, r.drifted
from resource r
where r.owner = ?1 and r.project = ?2
  and not exists (select 1 from wanted w where w.repository = ?1 and w.kind = r.kind and w.name = r.name)
order by r.path, r.kind, r.name;

-- name: owned
select r.kind, r.name, r.digest, r.version, r.owner, r.path, r.line, r.protected, r.incomplete, r.drifted
from resource r
where r.owner = ? and r.project = ?
order by r.path, r.kind, r.name;

-- name: owned_count
select count(*) from resource where owner = ? and project = ?;

-- The resources of a repository whose stored path is one of these files, or below a folder of that name. ('0' follows
-- '/', so the range has every path that begins with the folder.)
-- name: standing_at
select k.value, r.kind, r.name
from json_each(?3) k
cross join resource r on r.owner = ?1 and r.project = ?2 and r.path = k.value
union all
select k.value, r.kind, r.name
from json_each(?3) k
cross join resource r on r.owner = ?1 and r.project = ?2 and r.path > k.value || '/' and r.path < k.value || '0';

-- Without the index's name, SQLite reads all rows of the repository.
-- name: wanted_of
select w.repository, w.path, w.position, w.kind, w.name, w.digest, w.unconverged
from json_each(?2) k
cross join wanted w indexed by wanted_by_key on w.repository = ?1 and w.kind = json_extract(k.value, '$[0]')
                   and w.name = json_extract(k.value, '$[1]');

-- Those of these keys that a repository of the project wants and the store does not have.
-- name: unmet
select w.repository, w.kind, w.name
from json_each(?2) k
cross join repository p on p.project = ?1
cross join wanted w on w.repository = p.name and w.kind = json_extract(k.value, '$[0]')
                   and w.name = json_extract(k.value, '$[1]')
where not exists (select 1 from resource r where r.project = ?1 and r.kind = w.kind and r.name = w.name);

-- name: wanted_count
select count(*) from wanted where repository = ?;

-- name: wanted_in
select w.repository, w.path, w.position, w.kind, w.name, w.digest, w.unconverged
from json_each(?2) k
cross join wanted w on w.repository = ?1 and w.path = k.value;

-- name: blobs
select f.path, f.blob
from json_each(?2) k
cross join source_file f on f.repository = ?1 and f.path = k.value;

-- Files to judge again: a document is not stored as wanted, or the stored resource no longer fits its type.
-- name: unconverged
select path from wanted indexed by wanted_unconverged where repository = ?1 and unconverged is not null
union
select w.path
from resource r indexed by resource_incomplete
cross join wanted w on w.repository = ?1 and w.kind = r.kind and w.name = r.name
where r.owner = ?1 and r.incomplete = 1
order by 1;

-- name: suspended_at
select repository from suspension where until is null or until > ?;

-- name: waits_for_store
select exists (select 1 from wanted indexed by wanted_unconverged
               where repository = ?1 and unconverged is not null and unconverged = 'waiting')
    or exists (select 1 from resource indexed by resource_incomplete where owner = ?1 and incomplete = 1)
    or exists (select 1 from held where repository = ?1 and why = 'in-use');

-- name: pruned_since
select coalesce(max(owned), 0), coalesce(sum(deleted), 0) from prune_ledger where repository = ? and at > ?;

-- name: stays
select kind, name, why from held where repository = ?;

-- name: approval
select repository, commit_id, actor, at from approval where repository = ?;

-- name: approved
select kind, name from approved where repository = ?;

-- Resources of a repository without lineage: the commit that changed their file is unknown.
-- name: without_lineage
select r.kind, r.name, r.version, v.origin, v.path, r.origin, o.id,
       case when r.place is null then v.path when r.place = 1 then r.path end
from resource r
join version v on v.id = r.version_id
join origin o on o.id = ifnull(r.origin, v.origin)
where r.owner = ?1 and r.project = ?2
  and cast(o.head || o.tail as text) ->> '$.repository' = ?1
  and cast(o.head || o.tail as text) -> '$.changedBy' is null
order by r.path, r.kind, r.name
limit ?3;

-- name: origin
select id, head, tail, actor, run, request, created_at from origin where id = ?;

-- name: vacant_files
select path, vacant from source_file indexed by source_file_vacant
where repository = ? and vacant is not null
order by path;

-- name: given
select path, given from source_file indexed by source_file_given
where repository = ? and given is not null
order by path;

-- The resources of the applied head in these files, or in files below folders of these names.
-- name: wanted_at
select k.value, w.kind, w.name
from json_each(?2) k
cross join wanted w on w.repository = ?1 and w.path = k.value
where w.kind is not null and w.name is not null
union all
select k.value, w.kind, w.name
from json_each(?2) k
cross join wanted w on w.repository = ?1 and w.path > k.value || '/' and w.path < k.value || '0'
where w.kind is not null and w.name is not null;

-- name: files_of
select repository, path, blob, vacant, given from source_file where repository = ? order by path;

-- name: all_wanted
select repository, path, position, kind, name, digest, unconverged from wanted where repository = ?
order by path, position;

-- Repositories and runs

-- name: held_count
select count(*) from held where repository = ? and why = 'held';

-- name: held_first
select kind, name from held where repository = ? and why = 'held' order by kind, name limit ?;

-- name: repository
select name, project, fingerprint, commit_id, tree, head, state, message, since, origin, approvable
from repository where name = ?;

-- name: suspension
select repository, reason, actor, since, until from suspension where repository = ?;

-- The number of resources that were stored as the head wants and no longer are, plus those that were not stored as the
-- head wants and changed since.
-- name: drift
select (select count(*)
        from wanted w
        left join resource r on r.project = ?2 and r.kind = w.kind and r.name = w.name
        where w.repository = ?1 and w.unconverged is null and r.digest is not w.digest)
     + (select count(*)
        from resource r indexed by resource_by_owner
        where r.owner = ?1 and r.project = ?2 and r.drifted = 1
          and not exists (select 1 from wanted w indexed by wanted_by_key
                          where w.repository = ?1 and w.kind = r.kind and w.name = r.name
                            and (w.unconverged is null or w.digest = r.digest)));

-- name: repositories
select name, project, fingerprint, commit_id, tree, head, state, message, since, origin, approvable
from repository order by name;

-- name: run
select id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at, finished_at,
       duration_ms, flows
from run where id = ?;

-- name: runs
select id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at, finished_at,
       duration_ms, flows
from run order by id desc limit ?;

-- The newest runs of each project, and of these the newest: otherwise all their runs would be read and sorted.
-- name: runs_of_projects
select r.id, r.project, r.repository, r.trigger, r.actor, r.commit_id, r.outcome, r.message, r.counts, r.rewound,
       r.started_at, r.finished_at, r.duration_ms, r.flows
from run r
where r.id in (
  select n.id
  from json_each(?1) k
  cross join run n on n.id in (select id from run where project = k.value order by id desc limit ?2)
)
order by r.id desc limit ?2;

-- name: runs_of_repository
select id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at, finished_at,
       duration_ms, flows
from run where repository = ?1 order by id desc limit ?2;

-- A repository may have filled another project before.
-- name: runs_of_repository_in_projects
select id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at, finished_at,
       duration_ms, flows
from run
where repository = ?1 and project in (select k.value from json_each(?2) k)
order by id desc limit ?3;

-- name: last_run
select id from run where repository = ? order by id desc limit 1;

-- name: run_statuses
select run, ordinal, kind, name, status, reason, path, line, notes from run_status where run = ? order by ordinal;

-- The events of a run are found by the names in its statuses, which are indexed.
-- name: run_changes
select s.kind, s.name, s.status, s.path, s.line, a.version_before, a.version_after
from run r
join run_status s on s.run = r.id
cross join audit a on a.name = s.name and a.kind = s.kind and a.project = r.project
left join origin o on o.id = a.origin
where r.id = ?1 and ifnull(a.run, o.run) = r.id and a.version_before is not a.version_after
order by s.ordinal
limit ?2;

-- Writing

-- New versions get the ids after this one.
-- name: last_version
select ifnull(max(id), 0) from version;

-- An origin with the same id must be equal. If it is not, this sets `head` to null, which the table refuses.
-- name: insert_origin
insert into origin (id, head, tail, actor, run, request, created_at) values (?, ?, ?, ?, ?, ?, ?)
on conflict (id) do update set head = null
where (head, tail, actor, run, request, created_at)
      is not (excluded.head, excluded.tail, excluded.actor, excluded.run, excluded.request, excluded.created_at);

-- name: insert_version
insert into version (id, project, kind, name, version, body, secrets, origin, path, line, checksum)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- An index refuses another resource with the same id.
-- name: put_head
insert into resource (project, kind, name, version, resource_id, digest, owner, path, line, protected, incomplete, status,
                      drifted, origin, place, version_id)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
        ifnull(?16, (select id from version where project = ?1 and kind = ?2 and name = ?3 and version = ?4)))
on conflict (project, kind, name) do update
set version = excluded.version, resource_id = excluded.resource_id, digest = excluded.digest, owner = excluded.owner,
    path = excluded.path, line = excluded.line, protected = excluded.protected, incomplete = excluded.incomplete,
    status = excluded.status, drifted = excluded.drifted, origin = excluded.origin, place = excluded.place,
    version_id = excluded.version_id;

-- name: put_head_status
update resource set incomplete = ?, status = ?, digest = ifnull(?, digest) where project = ? and kind = ? and name = ?;

-- Nothing is written unless the Configuration still uses what it was made of, and what was said before still is. A
-- rendering stays in force while the next ones fail, and goes with the last one that is said of. The one before another
-- text is kept, and goes with it.
-- name: put_rendering
insert into rendering (project, configuration, program, inputs, said, body)
select ?1, ?2, ?3, ?4, ?5, ?6
where ?4 = (
  with recursive used (kind, name) as (
    values ('Configuration', ?2)
    union
    select f.target_kind, f.target_name
    from used u cross join reference f on f.project = ?1 and f.kind = u.kind and f.name = u.name
  )
  select printf('%d %d %d %d', max(r.version_id), sum(r.version_id), count(*),
                sum(r.kind = 'Configuration' and r.incomplete = 1))
  from used u cross join resource r on r.project = ?1 and r.kind = u.kind and r.name = u.name)
and ?7 is (select said from rendering where project = ?1 and configuration = ?2)
on conflict (project, configuration) do update
set program = excluded.program, inputs = excluded.inputs, said = excluded.said,
    body = case when excluded.said is not null then ifnull(excluded.body, body) end,
    previous = case when excluded.said is null then null when excluded.body <> body then body else previous end,
    previous_hash = case when excluded.said is null then null
                         when excluded.body <> body then cast(said as text) ->> '$.hash' else previous_hash end;

-- name: put_rendering_status
update resource set status = ?1
where project = ?3 and kind = 'Configuration' and name = ?4 and status = ?2 and status <> ?1;

-- name: forget_rendering
delete from rendering where project = ?1 and configuration = ?3 and ?2 = 'Configuration';

-- name: forget_renderings
delete from rendering where project = ?;

-- name: put_past_route
insert or replace into past_route (project, configuration, is_in_force, past) values (?, ?, ?, ?);

-- name: forget_past_route
delete from past_route where project = ? and configuration = ?;

-- name: rewrite_version
update version set body = ?, secrets = ?, checksum = ?
where project = ? and kind = ? and name = ? and version = ?;

-- Redacting

-- This reads every run of the project, since quoted text has no index.
-- name: quotes
select 'reason', s.run, s.ordinal, s.reason
from run_status s cross join run r on r.id = s.run
where exists (select 1 from json_each(?2) t where instr(s.reason, t.value) > 0) and r.project = ?1
union all
select 'notes', s.run, s.ordinal, s.notes
from run_status s cross join run r on r.id = s.run
where exists (select 1 from json_each(?2) t where instr(s.notes, t.value) > 0) and r.project = ?1
union all
select 'message', id, 0, message from run
where exists (select 1 from json_each(?2) t where instr(message, t.value) > 0) and project = ?1
union all
select 'detail', cast(id as text), 0, detail from audit
where exists (select 1 from json_each(?2) t where instr(detail, t.value) > 0) and project = ?1
order by 1, 2, 3;

-- name: rewrite_reason
update run_status set reason = ? where run = ? and ordinal = ?;

-- name: rewrite_notes
update run_status set notes = ? where run = ? and ordinal = ?;

-- name: rewrite_message
update run set message = ? where id = ?;

-- name: rewrite_detail
update audit set detail = ?, salt = null where id = cast(? as integer);

-- This fact exists as long as the files hold overwritten secrets.
-- name: traces
select value from fact where key = 'traces';

-- name: put_traces
insert or replace into fact (key, value) values ('traces', ?);

-- name: forget_traces
delete from fact where key = 'traces';

-- name: explain_head
update resource set origin = ?
where project = ? and kind = ? and name = ? and version = ? and origin is ?;

-- name: explain_version
update version set origin = ? where project = ? and kind = ? and name = ? and version = ? and origin = ?;

-- name: forget_references
delete from reference where project = ? and kind = ? and name = ?;

-- name: insert_reference
insert into reference (project, kind, name, target_kind, target_name) values (?, ?, ?, ?, ?);

-- name: remove_head
delete from resource where project = ? and kind = ? and name = ?;

-- name: insert_audit
insert into audit (id, link, at, project, actor, action, kind, name, version_before, version_after, run, request, detail,
                   address, salt)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- The applied head of a repository, and resources that stay although it does not hold them

-- name: forget_files
delete from source_file where repository = ?;

-- name: forget_all_wanted
delete from wanted where repository = ?;

-- name: forget_file
delete from source_file where repository = ? and path = ?;

-- name: forget_wanted
delete from wanted where repository = ? and path = ?;

-- name: put_file
insert or replace into source_file (repository, path, blob, vacant, given) values (?, ?, ?, ?, ?);

-- name: put_wanted
insert or replace into wanted (repository, path, position, kind, name, digest, unconverged) values (?, ?, ?, ?, ?, ?, ?);

-- name: forget_held
delete from held where repository = ?;

-- name: put_held
insert or replace into held (repository, kind, name, why) values (?, ?, ?, ?);

-- name: insert_run
insert into run (id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at,
                 finished_at, duration_ms, flows)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_run_status
insert into run_status (run, ordinal, kind, name, status, reason, path, line, notes)
values (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_repository
insert or replace into repository (name, project, fingerprint, commit_id, tree, head, state, message, since, origin,
                                   approvable)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_suspension
insert or replace into suspension (repository, reason, actor, since, until) values (?, ?, ?, ?, ?);

-- name: forget_suspension
delete from suspension where repository = ?;

-- name: forget_pruned
delete from prune_ledger where repository = ? and at <= ?;

-- name: insert_pruned
insert into prune_ledger (repository, at, owned, deleted) values (?, ?, ?, ?);

-- name: forget_approval
delete from approval where repository = ?;

-- name: forget_approved
delete from approved where repository = ?;

-- name: can_approve
select exists (select 1 from repository where name = ? and head = ? and approvable = 1);

-- name: put_approval
insert into approval (repository, commit_id, actor, at) values (?, ?, ?, ?);

-- name: approve_held
insert into approved (repository, kind, name)
select repository, kind, name from held where repository = ? and why = 'held';

-- name: forget_ledger
delete from prune_ledger where repository = ?;

-- name: drifting_statuses
select status, project, kind, name from resource
where owner = ? and instr(status, cast('"drift":' as blob)) > 0;

-- name: put_status
update resource set status = ? where project = ? and kind = ? and name = ?;

-- name: release_resources
update resource set owner = null, path = null, line = null, drifted = 0, place = 0 where owner = ?;

-- name: remove_repository
delete from repository where name = ?;

-- People, keys and roles

-- name: all_projects
select name, created_at from project order by name;

-- name: all_users
select id, name, created_at, display_name, organization_admin, password, issuer, subject, email, losses
from user order by name;

-- name: all_members
select project, user, role from member order by project, user;

-- name: all_keys
select id, name, prefix, digest, project, role, scopes, created_at, created_by, expires_at, last_used_at, owner
from api_key order by id;

-- name: put_project
insert or ignore into project (name, created_at) values (?, ?);

-- name: put_user
insert into user (id, name, created_at, display_name, organization_admin, password, issuer, subject, email, losses)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (id) do update
set name = excluded.name, display_name = excluded.display_name, organization_admin = excluded.organization_admin,
    password = excluded.password, issuer = excluded.issuer, subject = excluded.subject, email = excluded.email,
    losses = excluded.losses;

-- name: remove_user
delete from user where id = ?;

-- name: put_member
insert into member (project, user, role) values (?, ?, ?)
on conflict (project, user) do update set role = excluded.role;

-- name: remove_member
delete from member where project = ? and user = ?;

-- name: insert_key
insert into api_key (id, name, prefix, digest, project, role, scopes, created_at, created_by, expires_at, last_used_at, owner)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: remove_key
delete from api_key where id = ?;

-- name: touch_key
update api_key set last_used_at = ? where id = ?;

-- name: all_invitations
select id, project, role, created_at, created_by, expires_at, digest, email from invitation order by id;

-- name: insert_invitation
insert into invitation (id, project, role, created_at, created_by, expires_at, digest, email) values (?, ?, ?, ?, ?, ?, ?, ?);

-- name: remove_invitation
delete from invitation where id = ?;

-- name: auth_type
select value from fact where key = 'auth_type';

-- Amendments of the directory so far: a decision on an older directory is not written.
-- name: directory_number
select ifnull((select value from fact where key = 'directory'), 0);

-- name: count_amendment
insert into fact (key, value) values ('directory', 1) on conflict (key) do update set value = value + 1;

-- name: put_auth_type
insert or replace into fact (key, value) values ('auth_type', ?);

-- Resources that need attention

-- name: incomplete_configurations
select name from resource
where project = ? and kind = 'Configuration' and incomplete = 1
order by name;

-- name: incomplete_others
select kind, name from resource
where project = ? and kind <> 'Configuration' and incomplete = 1
order by kind, name;

-- name: stale_configurations
select configuration from past_route where project = ? and is_in_force = 1 order by configuration;

-- Resources that others refer to and that may be deprecated: the text may be elsewhere in a document.
-- name: deprecated_in_use
select r.kind, r.name, v.body
from (select distinct target_kind, target_name from reference where project = ?1) f
cross join resource r on r.project = ?1 and r.kind = f.target_kind and r.name = f.target_name
join version v on v.id = r.version_id
where instr(v.body, cast('"deprecated":true' as blob)) > 0
order by r.kind, r.name;

-- name: users
select kind, name from reference
where project = ? and target_kind = ? and target_name = ?
order by kind, name;

-- name: first_users
select kind, name from reference
where project = ? and target_kind = ? and target_name = ?
order by kind, name
limit ?;

-- Checksums

-- name: examined
select id, project, kind, name, version, body, secrets, checksum from version where id > ? order by id limit ?;

-- The audit

-- Numbers of events are never used again, so a number always names the same event.
-- name: last_event
select max(ifnull((select max(id) from audit), 0), (select last_event from audit_anchor where id = 1));

-- name: event
select a.id, ifnull(a.at, o.created_at), a.project, ifnull(a.actor, o.actor), a.action, a.kind, a.name, a.version_before,
       a.version_after, ifnull(a.run, o.run), ifnull(a.request, o.request), a.detail, a.address, a.salt
from audit a
left join origin o on o.id = a.origin
where a.id = cast(? as integer);

-- name: last_link
select number, hash from audit_link where number = (select max(number) from audit_link);

-- name: insert_link
insert into audit_link (number, hash, events, first_at, last_at, address, content, checked) values (?, ?, ?, ?, ?, ?, ?, 1);

-- name: insert_rewrite
insert into audit_rewrite (event, link, before, after) values (?, ?, ?, ?);

-- Newest first: links in the order of the commits, and the events of each by their numbers. `cross join` fixes the
-- order of the loops, so nothing is sorted. The arguments are the position to begin after, the fields of `AuditWanted`
-- in their order, and the limit. An event of a key has the key's id as its name, and the key's name in the detail.
-- name: audit_events
select l.number, a.id, ifnull(a.at, o.created_at) as at, a.project, ifnull(a.actor, o.actor) as actor, a.action, a.kind,
       a.name, a.version_before, a.version_after, ifnull(a.run, o.run), ifnull(a.request, o.request), a.detail,
       ifnull(a.address, l.address)
from audit_link l
cross join audit a on a.link = l.number
left join origin o on o.id = a.origin
where l.number <= ?1 and (l.number < ?1 or a.id < ?2)
  and (?8 is null or l.last_at >= ?8) and (?9 is null or l.first_at < ?9)
  and (?3 is null or a.project in (select value from json_each(?3)))
  and (?4 is null or a.kind = ?4) and (?7 is null or a.action = ?7)
  and (?6 is null or ifnull(a.actor, o.actor) = ?6)
  and (?8 is null or ifnull(a.at, o.created_at) >= ?8)
  and (?9 is null or ifnull(a.at, o.created_at) < ?9)
  and (?5 is null or a.name = ?5
       or (?4 = 'Key' and case when json_valid(a.detail) then json_extract(a.detail, '$.name') end = ?5))
order by l.number desc, a.id desc
limit ?10;

-- One version in the form of its history.
-- name: version_shown
select v.body, r.status, o.head, o.tail,
       case when r.place is null then v.path when r.place = 1 then r.path end,
       case when r.place is null then v.line when r.place = 1 then r.line end,
       v.secrets, v.checksum, v.kind, v.name, v.version
from version v
left join resource r on r.project = v.project and r.kind = v.kind and r.name = v.name and r.version = v.version
join origin o on o.id = ifnull(r.origin, v.origin)
where v.project = ? and v.kind = ? and v.name = ? and v.version = ?;

-- Retention

-- name: last_event_until
select ifnull(max(id), 0) from audit indexed by audit_by_link where link <= ?;

-- name: put_anchor
update audit_anchor
set number = ?1, hash = ?2, events = events + ?3, last_event = max(last_event, ?4), proof = ?5
where id = 1;

-- name: remove_links
delete from audit_link where number <= ?;

-- name: remove_rewrites
delete from audit_rewrite where link <= ?;

-- name: remove_events
delete from audit where link between 1 and ?;

-- Verifying

-- name: audit_anchor
select number, hash, events, last_event, proof from audit_anchor where id = 1;

-- All of them for a negative limit.
-- name: links
select number, events, first_at, last_at, address, hash, checked, content from audit_link order by number limit ?;

-- name: link_hash
select hash from audit_link where number = ?;

-- The events of one link in order. A redacted event has two hashes: the one that its own link covers, and the one after
-- the last redaction.
-- name: chained_events
select a.id, ifnull(a.at, o.created_at), a.project, ifnull(a.actor, o.actor), a.action, a.kind, a.name,
       a.version_before, a.version_after, ifnull(a.run, o.run), ifnull(a.request, o.request), a.detail, a.address, a.salt,
       (select w.before from audit_rewrite w where w.event = a.id order by w.link limit 1),
       (select w.after from audit_rewrite w where w.event = a.id order by w.link desc limit 1)
from audit a
left join origin o on o.id = a.origin
where a.link = ?
order by a.id;

-- Events after the last link belong to a link that was removed.
-- name: first_link_of_events_after
select link from audit where link > ? order by link limit 1;

-- name: rewrites_of_link
select event, before, after from audit_rewrite where link = ? order by event;

-- name: rewrites_in_all
select count(*) from audit_rewrite;

-- name: redaction_of_link
select id from audit where link = ? and action = 'redacted' order by id limit 1;

-- An event that was inserted into a removed link, or into none.
-- name: stray_event
select a.id
from audit_anchor n cross join audit a on a.link <= n.number
where n.id = 1 and (a.link < 1 or a.id > n.last_event)
order by a.link, a.id
limit 1;
