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
select r.name, v.body, r.status
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
select r.kind, r.name, r.digest, r.version, r.owner, r.path, r.line, r.protected
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
select r.kind, r.name, r.resource_id, v.source
from json_each(?2) k
cross join resource r on r.project = ?1 and r.kind = json_extract(k.value, '$[0]') and r.name = json_extract(k.value, '$[1]')
join version v on v.project = r.project and v.kind = r.kind and v.name = r.name and v.version = r.version;

-- name: taken_ids
select r.resource_id
from json_each(?2) k
cross join resource r on r.project = ?1 and r.resource_id = k.value;

-- What a repository owns and its head does not contain (an invalid document with a known kind and name counts).
-- name: owned_unwanted
select r.kind, r.name, r.digest, r.version, r.owner, r.path, r.line, r.protected
from resource r
where r.owner = ?1 and r.project = ?2
  and not exists (select 1 from wanted w where w.repository = ?1 and w.kind = r.kind and w.name = r.name)
order by r.path, r.kind, r.name;

-- name: owned
select r.kind, r.name, r.digest, r.version, r.owner, r.path, r.line, r.protected
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

-- name: unconverged
select distinct path from wanted where repository = ? and unconverged is not null order by path;

-- name: waits_for_store
select exists (select 1 from wanted where repository = ? and unconverged = 'waiting');

-- name: vacant_files
select path, vacant from source_file where repository = ? and vacant is not null order by path;

-- Repositories and runs

-- name: repository
select name, project, fingerprint, commit_id, tree, head, state, message, since from repository where name = ?;

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

-- name: runs_of_repository
select id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at, finished_at,
       duration_ms
from run where repository = ? order by id desc limit ?;

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
insert into resource (project, kind, name, version, resource_id, digest, owner, path, line, protected, status)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (project, kind, name) do update
set version = excluded.version, resource_id = excluded.resource_id, digest = excluded.digest, owner = excluded.owner,
    path = excluded.path, line = excluded.line, protected = excluded.protected, status = excluded.status;

-- name: remove_head
delete from resource where project = ? and kind = ? and name = ?;

-- name: insert_audit
insert into audit (at, project, actor, action, kind, name, version_before, version_after, run, request)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: forget_file
delete from source_file where repository = ? and path = ?;

-- name: forget_wanted
delete from wanted where repository = ? and path = ?;

-- name: forget_files_of
delete from source_file where repository = ?;

-- name: forget_wanted_of
delete from wanted where repository = ?;

-- name: put_file
insert or replace into source_file (repository, path, blob, vacant) values (?, ?, ?, ?);

-- name: put_wanted
insert or replace into wanted (repository, path, position, kind, name, digest, unconverged) values (?, ?, ?, ?, ?, ?, ?);

-- name: insert_run
insert into run (id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at,
                 finished_at, duration_ms)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_run_status
insert into run_status (run, ordinal, kind, name, status, reason, path, line) values (?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_repository
insert or replace into repository (name, project, fingerprint, commit_id, tree, head, state, message, since)
values (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: release_resources
update resource
set owner = null, path = null, line = null,
    status = cast(json_remove(cast(status as text), '$.source.path', '$.source.line') as blob)
where owner = ?;

-- name: remove_repository
delete from repository where name = ?;
