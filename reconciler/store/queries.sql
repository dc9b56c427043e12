-- Every statement that the store runs, by name. Lists of keys come in as one JSON array, so that a statement is
-- prepared once; `cross join` makes that array the outer loop, whatever the engine guesses of its size.

-- name: revision
select value from fact where key = 'revision';

-- name: grow_revision
update fact set value = value + 1 where key = 'revision';

-- name: hmac_key
select value from fact where key = 'hmac_key';

-- name: projects
select name from project order by name;

-- name: create_project
insert into project (name, created_at) values (?, ?) on conflict (name) do nothing;

-- Reading resources

-- name: get
select v.body, r.status
from resource r
join version v on v.project = r.project and v.kind = r.kind and v.name = r.name and v.version = r.version
where r.project = ? and r.kind = ? and r.name = ?;

-- name: list_page
select v.body, r.status
from resource r
join version v on v.project = r.project and v.kind = r.kind and v.name = r.name and v.version = r.version
where r.project = ? and r.kind = ? and r.name > ?
order by r.name
limit ?;

-- name: history
select v.body, v.source, r.status
from version v
left join resource r on r.project = v.project and r.kind = v.kind and r.name = v.name and r.version = v.version
where v.project = ? and v.kind = ? and v.name = ?
order by v.version desc;

-- Planning

-- name: stored
select r.kind, r.name, r.digest, r.version, r.owner, r.path, r.line, r.protected, r.incomplete, r.drifted
from json_each(?2) k
cross join resource r on r.project = ?1 and r.kind = json_extract(k.value, '$[0]') and r.name = json_extract(k.value, '$[1]');

-- name: bodies
select r.kind, r.name, v.body, r.status
from json_each(?2) k
cross join resource r on r.project = ?1 and r.kind = json_extract(k.value, '$[0]') and r.name = json_extract(k.value, '$[1]')
join version v on v.project = r.project and v.kind = r.kind and v.name = r.name and v.version = r.version;

-- The newest version that a resource ever had, also when it was deleted since.
-- name: last_versions
select json_extract(k.value, '$[0]'), json_extract(k.value, '$[1]'), max(v.version)
from json_each(?2) k
cross join version v on v.project = ?1 and v.kind = json_extract(k.value, '$[0]') and v.name = json_extract(k.value, '$[1]')
group by 1, 2;

-- name: identities
select r.kind, r.name, r.resource_id, v.source, r.status
from json_each(?2) k
cross join resource r on r.project = ?1 and r.kind = json_extract(k.value, '$[0]') and r.name = json_extract(k.value, '$[1]')
join version v on v.project = r.project and v.kind = r.kind and v.name = r.name and v.version = r.version;

-- name: documents
select r.kind, r.name, v.body, v.secrets, r.owner, r.incomplete, r.status
from json_each(?2) k
cross join resource r on r.project = ?1 and r.kind = json_extract(k.value, '$[0]') and r.name = json_extract(k.value, '$[1]')
join version v on v.project = r.project and v.kind = r.kind and v.name = r.name and v.version = r.version;

-- name: configurations
select r.kind, r.name, v.body, v.secrets, r.owner, r.incomplete, r.status
from resource r
join version v on v.project = r.project and v.kind = r.kind and v.name = r.name and v.version = r.version
where r.project = ? and r.kind = 'Configuration'
order by r.name;

-- name: versions_back
select version, body, secrets from version
where project = ? and kind = ? and name = ?
order by version desc
limit ?;

-- One look at every version of a project: what a type calls a secret is rare, and an index of types would be paid for
-- by every write. Canonical JSON has one way to write each of these. Looking for many texts in a long body costs far more
-- than reading it, and whoever writes documents says how many: beyond 64, all versions are given to whoever asks.
-- name: versions_naming
select v.kind, v.name, v.version, v.body, v.secrets
from version v not indexed
where v.project = ?1 and v.kind in (select k.value from json_each(?2) k)
  and (json_array_length(?3) > 64
       or exists (select 1 from json_each(?3) n where instr(v.body, cast(n.value as blob)) > 0))
order by v.id;

-- name: versions_holding
select v.version, v.body, v.secrets
from version v
where v.project = ?1 and v.kind = ?2 and v.name = ?3
  and (json_array_length(?4) > 64
       or exists (select 1 from json_each(?4) k where instr(v.body, cast(k.value as blob)) > 0))
order by v.version;

-- name: referrers
select f.target_kind, f.target_name, f.kind, f.name
from json_each(?2) k
cross join reference f on f.project = ?1 and f.target_kind = json_extract(k.value, '$[0]')
                      and f.target_name = json_extract(k.value, '$[1]');

-- name: taken_ids
select r.resource_id
from json_each(?2) k
cross join resource r on r.project = ?1 and r.resource_id = k.value;

-- What a repository owns and its head does not contain (an invalid document with a known kind and name counts).
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

-- The resources of a repository that stand in these files, or in files below folders of these names, going by what is
-- stored. ('0' follows '/': the range holds every path that begins with the folder.)
-- name: standing_at
select k.value, r.kind, r.name
from json_each(?3) k
cross join resource r on r.owner = ?1 and r.project = ?2 and r.path = k.value
union all
select k.value, r.kind, r.name
from json_each(?3) k
cross join resource r on r.owner = ?1 and r.project = ?2 and r.path > k.value || '/' and r.path < k.value || '0';

-- name: places_of
select w.kind, w.name, w.path
from json_each(?2) k
cross join wanted w on w.repository = ?1 and w.kind = json_extract(k.value, '$[0]')
                   and w.name = json_extract(k.value, '$[1]');

-- name: wanted_count
select count(*) from wanted where repository = ?;

-- name: wanted_in
select w.repository, w.path, w.position, w.kind, w.name, w.digest, w.unconverged
from json_each(?2) k
cross join wanted w on w.repository = ?1 and w.path = k.value;

-- name: paths_wanting
select distinct w.path
from json_each(?2) k
cross join wanted w on w.repository = ?1 and w.kind = json_extract(k.value, '$[0]') and w.name = json_extract(k.value, '$[1]');

-- name: blobs
select f.path, f.blob
from json_each(?2) k
cross join source_file f on f.repository = ?1 and f.path = k.value;

-- What must be judged again: it is not stored as it is wanted, or what is stored does not fit its type any more.
-- name: unconverged
select path from wanted indexed by wanted_unconverged where repository = ?1 and unconverged is not null
union
select w.path
from resource r indexed by resource_incomplete
cross join wanted w on w.repository = r.owner and w.kind = r.kind and w.name = r.name
where r.owner = ?1 and r.incomplete = 1
order by 1;

-- What the applied head wants of these: what is stored instead has drifted.
-- name: wanted_digests
select w.kind, w.name, w.digest
from json_each(?2) k
cross join wanted w on w.repository = ?1 and w.kind = json_extract(k.value, '$[0]')
                   and w.name = json_extract(k.value, '$[1]');

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

-- What a repository brought and of which it is not known which commit changed its file.
-- name: without_lineage
select r.kind, r.name, r.version, v.source, r.status
from resource r
join version v on v.project = r.project and v.kind = r.kind and v.name = r.name and v.version = r.version
where r.owner = ?1 and r.project = ?2
  and cast(r.status as text) ->> '$.source.repository' = ?1
  and cast(r.status as text) -> '$.source.changedBy' is null
order by r.path, r.kind, r.name
limit ?3;

-- name: vacant_files
select path, vacant from source_file where repository = ? and vacant is not null order by path;

-- name: given
select path, given from source_file where repository = ? and given is not null order by path;

-- What the applied head holds in these files, or in files below folders of these names.
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

-- name: wanted_of
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

-- name: suspended
select repository from suspension order by repository;

-- What the head wants and the store held when it was applied, and does not now; and what was not stored as the head
-- wants it even then, and was changed since.
-- name: drift
select (select count(*)
        from wanted w
        left join resource r on r.project = ?2 and r.kind = w.kind and r.name = w.name
        where w.repository = ?1 and w.unconverged is null and r.digest is not w.digest)
     + (select count(*)
        from resource r indexed by resource_by_owner
        where r.owner = ?1 and r.project = ?2 and r.drifted = 1
          and not exists (select 1 from wanted w indexed by wanted_by_key where w.repository = ?1 and w.kind = r.kind and w.name = r.name
                                                   and (w.unconverged is null or w.digest = r.digest)));

-- name: repositories
select name from repository order by name;

-- name: run
select id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at, finished_at,
       duration_ms
from run where id = ?;

-- name: runs
select id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at, finished_at,
       duration_ms
from run order by id desc limit ?;

-- Of each project its newest, and of those the newest: otherwise every run of theirs would be read and sorted.
-- name: runs_of_projects
select r.id, r.project, r.repository, r.trigger, r.actor, r.commit_id, r.outcome, r.message, r.counts, r.rewound,
       r.started_at, r.finished_at, r.duration_ms
from run r
where r.id in (
  select n.id
  from json_each(?1) k
  cross join run n on n.id in (select id from run where project = k.value order by id desc limit ?2)
)
order by r.id desc limit ?2;

-- name: runs_of_repository
select id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at, finished_at,
       duration_ms
from run where repository = ?1 order by id desc limit ?2;

-- A repository may have filled another project before.
-- name: runs_of_repository_in_projects
select id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at, finished_at,
       duration_ms
from run
where repository = ?1 and project in (select k.value from json_each(?2) k)
order by id desc limit ?3;

-- name: last_run
select id from run where repository = ? order by id desc limit 1;

-- name: run_statuses
select run, ordinal, kind, name, status, reason, path, line from run_status where run = ? order by ordinal;

-- Writing

-- name: insert_version
insert into version (project, kind, name, version, resource_id, digest, body, secrets, source, actor, run, request,
                     created_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- Not `insert or replace`: that would delete another resource which has the same id, instead of failing.
-- name: put_head
insert into resource (project, kind, name, version, resource_id, digest, owner, path, line, protected, incomplete,
                      status, drifted)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (project, kind, name) do update
set version = excluded.version, resource_id = excluded.resource_id, digest = excluded.digest, owner = excluded.owner,
    path = excluded.path, line = excluded.line, protected = excluded.protected, incomplete = excluded.incomplete,
    status = excluded.status, drifted = excluded.drifted;

-- name: put_head_status
update resource set incomplete = ?, status = ? where project = ? and kind = ? and name = ?;

-- name: rewrite_version
update version set body = ?, secrets = ?, digest = coalesce(?, digest)
where project = ? and kind = ? and name = ? and version = ?;

-- Redacting

-- name: versions_of
select version, body, secrets from version where project = ? and kind = ? and name = ? order by version;

-- Every run of the project is looked through: what a sentence quotes nobody indexes.
-- name: quotes
select 'reason', s.run, s.ordinal, s.reason
from run_status s cross join run r on r.id = s.run
where exists (select 1 from json_each(?2) t where instr(s.reason, t.value) > 0) and r.project = ?1
union all
select 'message', id, 0, message from run
where exists (select 1 from json_each(?2) t where instr(message, t.value) > 0) and project = ?1
union all
select 'detail', cast(id as text), 0, detail from audit
where exists (select 1 from json_each(?2) t where instr(detail, t.value) > 0) and project = ?1
order by 1, 2, 3;

-- name: rewrite_reason
update run_status set reason = ? where run = ? and ordinal = ?;

-- name: rewrite_message
update run set message = ? where id = ?;

-- name: rewrite_detail
update audit set detail = ? where id = cast(? as integer);

-- What is to be done about the traces: `vacuum`, then `checkpoint`; nothing when there is no such fact.
-- name: traces
select value from fact where key = 'traces';

-- name: put_traces
insert or replace into fact (key, value) values ('traces', ?);

-- name: forget_traces
delete from fact where key = 'traces';

-- name: fill_in_status
update resource set status = ? where project = ? and kind = ? and name = ? and version = ? and status = ?;

-- name: fill_in_source
update version set source = ? where project = ? and kind = ? and name = ? and version = ? and source = ?;

-- name: forget_references
delete from reference where project = ? and kind = ? and name = ?;

-- name: insert_reference
insert into reference (project, kind, name, target_kind, target_name) values (?, ?, ?, ?, ?);

-- name: remove_head
delete from resource where project = ? and kind = ? and name = ?;

-- name: insert_audit
insert into audit (at, project, actor, action, kind, name, version_before, version_after, run, request, detail)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: forget_file
delete from source_file where repository = ? and path = ?;

-- name: forget_wanted
delete from wanted where repository = ? and path = ?;

-- name: forget_files_of
delete from source_file where repository = ?;

-- name: forget_wanted_of
delete from wanted where repository = ?;

-- name: put_file
insert or replace into source_file (repository, path, blob, vacant, given) values (?, ?, ?, ?, ?);

-- name: put_wanted
insert or replace into wanted (repository, path, position, kind, name, digest, unconverged) values (?, ?, ?, ?, ?, ?, ?);

-- name: insert_run
insert into run (id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at,
                 finished_at, duration_ms)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_run_status
insert into run_status (run, ordinal, kind, name, status, reason, path, line) values (?, ?, ?, ?, ?, ?, ?, ?);

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

-- name: forget_held
delete from held where repository = ?;

-- name: put_held
insert or replace into held (repository, kind, name, why) values (?, ?, ?, ?);

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

-- name: release_resources
update resource
set owner = null, path = null, line = null, drifted = 0,
    status = cast(json_remove(cast(status as text), '$.source.path', '$.source.line', '$.drift') as blob)
where owner = ?;

-- name: remove_repository
delete from repository where name = ?;

-- Who may do what

-- name: all_projects
select name, created_at from project order by name;

-- name: all_users
select id, name, created_at, display_name, organization_admin, password from user order by name;

-- name: all_members
select project, user, role from member order by project, user;

-- name: all_keys
select id, name, prefix, digest, project, role, scopes, created_at, created_by, expires_at, last_used_at
from api_key order by id;

-- name: put_project
insert or ignore into project (name, created_at) values (?, ?);

-- name: put_user
insert into user (id, name, display_name, organization_admin, password, created_at) values (?, ?, ?, ?, ?, ?)
on conflict (id) do update
set name = excluded.name, display_name = excluded.display_name, organization_admin = excluded.organization_admin,
    password = excluded.password;

-- name: remove_user
delete from user where id = ?;

-- name: put_member
insert into member (project, user, role) values (?, ?, ?)
on conflict (project, user) do update set role = excluded.role;

-- name: remove_member
delete from member where project = ? and user = ?;

-- name: insert_key
insert into api_key (id, name, prefix, digest, project, role, scopes, created_at, created_by, expires_at, last_used_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: remove_key
delete from api_key where id = ?;

-- name: touch_key
update api_key set last_used_at = ? where id = ?;
