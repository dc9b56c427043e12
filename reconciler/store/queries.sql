-- Every statement that the store runs, by name. Lists of keys come in as one JSON array, so that a statement is
-- prepared once; `cross join` makes that array the outer loop, whatever the engine guesses of its size.
--
-- What reads asks the views, which show what counts at the present revision, but where an index is named; what writes is
-- given the revision whose state it changes, and that is the last number of its arguments.
--
-- x'7b226c6174657374223a747275657d' is {"latest":true}, the status of most resources, for which null stands in the table.

-- name: revision
select value from fact where key = 'revision';

-- name: put_revision
update fact set value = ? where key = 'revision';

-- name: reserved
select max(value) from fact where key in ('revision', 'reserved');

-- name: put_reserved
update fact set value = ? where key = 'reserved';

-- name: hmac_key
select value from fact where key = 'hmac_key';

-- name: projects
select name from project order by name;

-- name: create_project
insert into project (name, created_at) values (?, ?) on conflict (name) do nothing;

-- Reading resources

-- Columns that make a resource as a reader gets it, for `rows.shown`: its source is its version's, unless its
-- status tells of another origin or place. From the secrets on they are there to find damage.
-- name: get
select v.body, r.status, o.head, o.tail,
       case when r.place is null then v.path when r.place = 1 then r.path end,
       case when r.place is null then v.line when r.place = 1 then r.line end,
       v.secrets, v.checksum, v.kind, v.name, v.version
from resource r
join version_row v on v.id = r.version_id
join origin o on o.id = ifnull(r.origin, v.origin)
where r.project = ? and r.kind = ? and r.name = ?;

-- name: list_page
select v.body, r.status, o.head, o.tail,
       case when r.place is null then v.path when r.place = 1 then r.path end,
       case when r.place is null then v.line when r.place = 1 then r.line end,
       v.secrets, v.checksum, v.kind, v.name, v.version
from resource r
join version_row v on v.id = r.version_id
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

-- Planning

-- name: stored
select r.kind, r.name, r.digest, r.version, r.owner, r.path, r.line, r.protected, r.incomplete, r.drifted
from json_each(?2) k
cross join resource r on r.project = ?1 and r.kind = json_extract(k.value, '$[0]') and r.name = json_extract(k.value, '$[1]');

-- A digest says nothing of the body beside it: a plan that compares digests looks at what it compares.
-- name: compared
select r.kind, r.name, v.body, v.secrets, v.checksum
from json_each(?2) k
cross join resource r on r.project = ?1 and r.kind = json_extract(k.value, '$[0]') and r.name = json_extract(k.value, '$[1]')
join version_row v on v.id = r.version_id;

-- name: bodies
select v.body, r.status, o.head, o.tail,
       case when r.place is null then v.path when r.place = 1 then r.path end,
       case when r.place is null then v.line when r.place = 1 then r.line end,
       v.secrets, v.checksum, v.kind, v.name, v.version
from json_each(?2) k
cross join resource r on r.project = ?1 and r.kind = json_extract(k.value, '$[0]') and r.name = json_extract(k.value, '$[1]')
join version v on v.id = r.version_id
join origin o on o.id = ifnull(r.origin, v.origin);

-- Whether a project may hold anything. What is written ahead and does not count yet does no harm.
-- name: has_versions
select 1 from version_row where project = ? limit 1;

-- The newest version that a resource ever had, also when it was deleted since.
-- name: last_versions
select json_extract(k.value, '$[0]'), json_extract(k.value, '$[1]'), max(v.version)
from json_each(?2) k
cross join version v on v.project = ?1 and v.kind = json_extract(k.value, '$[0]') and v.name = json_extract(k.value, '$[1]')
group by 1, 2;

-- name: identities
select r.kind, r.name, r.resource_id, o.head, o.tail, r.status, o.created_at
from json_each(?2) k
cross join resource r on r.project = ?1 and r.kind = json_extract(k.value, '$[0]') and r.name = json_extract(k.value, '$[1]')
join version v on v.id = r.version_id
join origin o on o.id = v.origin;

-- name: documents
select r.kind, r.name, v.body, v.secrets, v.checksum, r.owner, r.incomplete, r.status
from json_each(?2) k
cross join resource r on r.project = ?1 and r.kind = json_extract(k.value, '$[0]') and r.name = json_extract(k.value, '$[1]')
join version v on v.id = r.version_id;

-- name: configurations
select r.kind, r.name, v.body, v.secrets, v.checksum, r.owner, r.incomplete, r.status
from resource r
join version v on v.id = r.version_id
where r.project = ? and r.kind = 'Configuration'
order by r.name;

-- name: version
select version, body, secrets, checksum from version where project = ? and kind = ? and name = ? and version = ?;

-- name: past_routes
select configuration, past from past_route where project = ? order by configuration;

-- name: versions_back
select version, body, secrets, checksum from version
where project = ? and kind = ? and name = ?
order by version desc
limit ?;

-- One look at every version of a project: what a type calls a secret is rare, and an index of types would be paid for
-- by every write. Canonical JSON has one way to write each of these. Looking for many texts in a long body costs far more
-- than reading it, and whoever writes documents says how many: beyond 64, all versions are given to whoever asks.
-- name: versions_naming
select v.kind, v.name, v.version, v.body, v.secrets, v.checksum
from version_row v not indexed
where v.project = ?1 and v.since <= (select value from fact where key = 'revision')
  and v.kind in (select k.value from json_each(?2) k)
  and (json_array_length(?3) > 64
       or exists (select 1 from json_each(?3) n where instr(v.body, cast(n.value as blob)) > 0))
order by v.id;

-- name: versions_holding
select v.version, v.body, v.secrets, v.checksum
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
cross join resource_row r indexed by resource_by_id on r.project = ?1 and r.resource_id = k.value
where r.since <= (select value from fact where key = 'revision')
  and ifnull(r.until > (select value from fact where key = 'revision'), 1);

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
select w.path from wanted_row w indexed by wanted_unconverged
where w.listing = (select number from listing where repository = ?1 and what = 'index') and w.unconverged is not null
  and w.since <= (select value from fact where key = 'revision')
  and ifnull(w.until > (select value from fact where key = 'revision'), 1)
union
select w.path
from resource_row r indexed by resource_incomplete
cross join wanted_row w on w.listing = (select number from listing where repository = ?1 and what = 'index') and w.kind = r.kind and w.name = r.name
where r.owner = ?1 and r.incomplete = 1
  and r.since <= (select value from fact where key = 'revision')
  and ifnull(r.until > (select value from fact where key = 'revision'), 1)
  and w.since <= (select value from fact where key = 'revision')
  and ifnull(w.until > (select value from fact where key = 'revision'), 1)
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
select exists (select 1 from wanted_row w indexed by wanted_unconverged
               where w.listing = (select number from listing where repository = ?1 and what = 'index')
                 and w.unconverged is not null and w.unconverged = 'waiting'
                 and w.since <= (select value from fact where key = 'revision')
                 and ifnull(w.until > (select value from fact where key = 'revision'), 1))
    or exists (select 1 from resource_row r indexed by resource_incomplete
               where r.owner = ?1 and r.incomplete = 1
                 and r.since <= (select value from fact where key = 'revision')
                 and ifnull(r.until > (select value from fact where key = 'revision'), 1))
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
select f.path, f.vacant
from source_file_row f indexed by source_file_vacant
where f.listing = (select number from listing where repository = ? and what = 'index') and f.vacant is not null
  and f.since <= (select value from fact where key = 'revision')
  and ifnull(f.until > (select value from fact where key = 'revision'), 1)
order by f.path;

-- name: given
select f.path, f.given
from source_file_row f indexed by source_file_given
where f.listing = (select number from listing where repository = ? and what = 'index') and f.given is not null
  and f.since <= (select value from fact where key = 'revision')
  and ifnull(f.until > (select value from fact where key = 'revision'), 1)
order by f.path;

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

-- What the head wants and the store held when it was applied, and does not now; and what was not stored as the head
-- wants it even then, and was changed since.
-- name: drift
select (select count(*)
        from wanted w
        left join resource r on r.project = ?2 and r.kind = w.kind and r.name = w.name
        where w.repository = ?1 and w.unconverged is null and r.digest is not w.digest)
     + (select count(*)
        from resource_row r indexed by resource_by_owner
        where r.owner = ?1 and r.project = ?2 and r.drifted = 1
          and r.since <= (select value from fact where key = 'revision')
          and ifnull(r.until > (select value from fact where key = 'revision'), 1)
          and not exists (select 1 from wanted_row w indexed by wanted_by_key
                          where w.listing = (select number from listing where repository = ?1 and what = 'index')
                            and w.kind = r.kind and w.name = r.name and (w.unconverged is null or w.digest = r.digest)
                            and w.since <= (select value from fact where key = 'revision')
                            and ifnull(w.until > (select value from fact where key = 'revision'), 1)));

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
select run, ordinal, kind, name, status, reason, path, line, notes from run_status where run = ? order by ordinal;

-- Writing

-- Whether anything has an id in a range. Rows that do not count do no harm: then the ids are looked up one by one.
-- name: ids_between
select exists (select 1 from resource_row indexed by resource_by_id
               where project = ? and resource_id between ? and ?);

-- The number behind which rows of versions that are written now get theirs.
-- name: last_version
select ifnull(max(id), 0) from version_row;

-- One that is there already is the same; if it is not, `head` becomes null, which the table refuses.
-- name: insert_origin
insert into origin (id, head, tail, actor, run, request, created_at) values (?, ?, ?, ?, ?, ?, ?)
on conflict (id) do update set head = null
where (head, tail, actor, run, request, created_at)
      is not (excluded.head, excluded.tail, excluded.actor, excluded.run, excluded.request, excluded.created_at);

-- name: insert_version
insert into version_row (id, project, kind, name, version, body, secrets, origin, path, line, since, checksum)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- In place of the row that counts. Another resource with the same id makes `since` null, which the table refuses.
-- name: put_head
insert into resource_row (project, kind, name, since, version, resource_id, digest, owner, path, line, protected,
                          incomplete, status, drifted, origin, place, version_id)
values (?1, ?2, ?3,
        case when ?18 and exists (select 1 from resource_row o indexed by resource_by_id
                          where o.project = ?1 and o.resource_id = ?5 and not (o.kind = ?2 and o.name = ?3)
                            and o.since <= ?16 and ifnull(o.until > ?16, 1)) then null
             else ifnull((select r.since from resource_row r
                          where r.project = ?1 and r.kind = ?2 and r.name = ?3
                            and r.since <= ?16 and ifnull(r.until > ?16, 1)), 0) end,
        ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
        nullif(?12, x'7b226c6174657374223a747275657d'), ?13, ?14, ?15,
        ifnull(?17, (select v.id from version_row v
                      where v.project = ?1 and v.kind = ?2 and v.name = ?3 and v.version = ?4)))
on conflict (project, kind, name, since) do update
set until = null, version = excluded.version, resource_id = excluded.resource_id, digest = excluded.digest,
    owner = excluded.owner, path = excluded.path, line = excluded.line, protected = excluded.protected,
    incomplete = excluded.incomplete, status = excluded.status, drifted = excluded.drifted,
    origin = excluded.origin, place = excluded.place, version_id = excluded.version_id;

-- name: put_head_status
update resource_row set incomplete = ?1, status = nullif(?2, x'7b226c6174657374223a747275657d'),
                        digest = ifnull(?3, digest)
where project = ?4 and kind = ?5 and name = ?6 and since <= ?7 and ifnull(until > ?7, 1);

-- name: put_past_route
insert or replace into past_route (project, configuration, is_in_force, past) values (?, ?, ?, ?);

-- name: forget_past_route
delete from past_route where project = ? and configuration = ?;

-- name: rewrite_version
update version_row set body = ?, secrets = ?, checksum = ?
where project = ? and kind = ? and name = ? and version = ?;

-- What a commit touches of what is stored: who has which id, and whose it is; what refers to what.
-- name: identities_of
select r.kind, r.name, r.resource_id, r.owner
from json_each(?2) k
cross join resource r on r.project = ?1 and r.kind = json_extract(k.value, '$[0]') and r.name = json_extract(k.value, '$[1]');

-- name: targets_of
select f.kind, f.name, f.target_kind, f.target_name
from json_each(?2) k
cross join reference f on f.project = ?1 and f.kind = json_extract(k.value, '$[0]')
                      and f.name = json_extract(k.value, '$[1]');

-- Writing ahead: the state that is changed is that of the revision at which it is to count

-- name: insert_staged
insert into staged (number, versions, audits, dropped)
select ?, (select ifnull(max(id), 0) from version_row), (select ifnull(max(id), 0) from audit_row), 0;

-- name: staged
select dropped from staged where number = ?;

-- name: all_staged
select number, versions, audits, run, dropped from staged order by number;

-- name: put_staged_run
update staged set run = ? where number = ?;

-- name: mark_others_dropped
update staged set dropped = 1 where number <> ?;

-- name: mark_dropped
update staged set dropped = 1 where number = ?;

-- name: forget_staged
delete from staged where number = ?;

-- name: end_head
update resource_row set until = ?4
where project = ?1 and kind = ?2 and name = ?3 and since < ?4 and ifnull(until > ?4, 1);

-- name: forget_staged_head
delete from resource_row where project = ? and kind = ? and name = ? and since = ?;

-- name: stage_head
insert into resource_row (project, kind, name, since, version, resource_id, digest, owner, path, line, protected,
                          incomplete, status, drifted, origin, place, version_id)
values (?1, ?2, ?3,
        case when ?18 and exists (select 1 from resource_row o indexed by resource_by_id
                          where o.project = ?1 and o.resource_id = ?5 and not (o.kind = ?2 and o.name = ?3)
                            and o.since <= ?16 and ifnull(o.until > ?16, 1)) then null
             else ?16 end,
        ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
        nullif(?12, x'7b226c6174657374223a747275657d'), ?13, ?14, ?15,
        ifnull(?17, (select v.id from version_row v
                      where v.project = ?1 and v.kind = ?2 and v.name = ?3 and v.version = ?4)))
on conflict (project, kind, name, since) do update
set version = excluded.version, resource_id = excluded.resource_id, digest = excluded.digest, owner = excluded.owner,
    path = excluded.path, line = excluded.line, protected = excluded.protected, incomplete = excluded.incomplete,
    status = excluded.status, drifted = excluded.drifted, origin = excluded.origin, place = excluded.place,
    version_id = excluded.version_id;

-- A row of its own of what counts, which can then be changed.
-- name: copy_head
insert into resource_row (project, kind, name, since, version, resource_id, digest, owner, path, line, protected,
                          incomplete, status, drifted, origin, place, version_id)
select project, kind, name, ?4, version, resource_id, digest, owner, path, line, protected, incomplete, status, drifted,
       origin, place, version_id
from resource_row
where project = ?1 and kind = ?2 and name = ?3 and since < ?4 and ifnull(until > ?4, 1);

-- name: end_references
update reference_row set until = ?4
where project = ?1 and kind = ?2 and name = ?3 and since < ?4 and ifnull(until > ?4, 1);

-- name: forget_staged_references
delete from reference_row where project = ? and kind = ? and name = ? and since = ?;

-- name: end_file
update source_file_row set until = ?3 where listing = ?1 and path = ?2 and since < ?3 and ifnull(until > ?3, 1);

-- name: forget_staged_file
delete from source_file_row where listing = ? and path = ? and since = ?;

-- name: stage_file
insert or replace into source_file_row (listing, path, blob, vacant, given, since) values (?, ?, ?, ?, ?, ?);

-- name: end_wanted
update wanted_row set until = ?3 where listing = ?1 and path = ?2 and since < ?3 and ifnull(until > ?3, 1);

-- name: end_wanted_one
update wanted_row set until = ?4
where listing = ?1 and path = ?2 and position = ?3 and since < ?4 and ifnull(until > ?4, 1);

-- name: forget_staged_wanted
delete from wanted_row where listing = ? and path = ? and since = ?;

-- name: stage_wanted
insert or replace into wanted_row (listing, path, position, kind, name, digest, unconverged, since)
values (?, ?, ?, ?, ?, ?, ?, ?);

-- Whether a change that is not shown yet writes or ends what these keys, or this id, stand for.
-- name: meets_staged
select exists (select 1 from resource_row r
               where r.project = ?1 and r.kind = ?2 and r.name = ?3 and (r.since > ?4 or r.until > ?4))
    or exists (select 1 from version_row v
               where v.project = ?1 and v.kind = ?2 and v.name = ?3 and v.since > ?4);

-- name: meets_staged_id
select exists (select 1 from resource_row r where r.project = ? and r.resource_id = ? and r.since > ?);

-- name: forget_staged_versions
delete from version_row where project = ? and kind = ? and name = ? and since > ?;

-- name: forget_run_statuses
delete from run_status where run = ?;

-- name: forget_staged_run
update staged set run = null where run = ?;

-- A number of their own, so that the spans of others do not hold them.
-- name: show_audit
update audit_row set since = -?1
where id > (select audits from staged where number = ?1) and since = ?1;

-- name: merge_held
update or replace held_row set listing = ? where listing = ?;

-- Sweeping: a few rows at a time

-- name: sweep_heads
delete from resource_row
where (project, kind, name, since) in (
  select project, kind, name, since from resource_row
  where until <= (select value from fact where key = 'revision') limit ?
);

-- name: sweep_references
delete from reference_row
where (project, kind, name, target_kind, target_name, since) in (
  select project, kind, name, target_kind, target_name, since from reference_row
  where until <= (select value from fact where key = 'revision') limit ?
);

-- name: sweep_files
delete from source_file_row
where (listing, path, since) in (
  select listing, path, since from source_file_row
  where until <= (select value from fact where key = 'revision') limit ?
);

-- name: sweep_wanted
delete from wanted_row
where (listing, path, position, since) in (
  select listing, path, position, since from wanted_row
  where until <= (select value from fact where key = 'revision') limit ?
);

-- What a change that was dropped would have ended goes on.
-- name: keep_heads
update resource_row set until = null
where (project, kind, name, since) in (
  select project, kind, name, since from resource_row where until = ? limit ?
);

-- name: keep_references
update reference_row set until = null
where (project, kind, name, target_kind, target_name, since) in (
  select project, kind, name, target_kind, target_name, since from reference_row where until = ? limit ?
);

-- name: keep_files
update source_file_row set until = null
where (listing, path, since) in (select listing, path, since from source_file_row where until = ? limit ?);

-- name: keep_wanted
update wanted_row set until = null
where (listing, path, position, since) in (
  select listing, path, position, since from wanted_row where until = ? limit ?
);

-- name: drop_versions
delete from version_row
where id in (select id from version_row where id > ? and since = ? order by id limit ?);

-- name: drop_audits
delete from audit_row
where id in (select id from audit_row where id > ? and since = ? order by id limit ?);

-- Nobody indexes what a dropped change wrote, since that is rare: the tables are looked through, a stretch at a time.
-- name: next_heads
select project, kind, name from resource_row where (project, kind, name) > (?, ?, ?)
order by project, kind, name limit 1 offset ?;

-- name: drop_heads
delete from resource_row
where since = ?1 and (project, kind, name) > (?2, ?3, ?4)
  and (?5 is null or (project, kind, name) <= (?5, ?6, ?7));

-- name: next_references
select project, kind, name from reference_row where (project, kind, name) > (?, ?, ?)
order by project, kind, name limit 1 offset ?;

-- name: drop_references
delete from reference_row
where since = ?1 and (project, kind, name) > (?2, ?3, ?4)
  and (?5 is null or (project, kind, name) <= (?5, ?6, ?7));

-- name: next_files
select listing, path from source_file_row where (listing, path) > (?, ?) order by listing, path limit 1 offset ?;

-- name: drop_files
delete from source_file_row
where since = ?1 and (listing, path) > (?2, ?3) and (?4 is null or (listing, path) <= (?4, ?5));

-- name: next_wanted
select listing, path from wanted_row where (listing, path) > (?, ?) order by listing, path limit 1 offset ?;

-- name: drop_wanted
delete from wanted_row
where since = ?1 and (listing, path) > (?2, ?3) and (?4 is null or (listing, path) <= (?4, ?5));

-- Unless the run was planned anew since, and these are of that.
-- name: drop_statuses
delete from run_status
where run = (select run from staged where number = ?1)
  and ordinal in (select ordinal from run_status where run = (select run from staged where number = ?1) limit ?2);

-- Rows of a list that nobody's is any more, nor will be.
-- name: next_index
select min(listing) from (
  select min(listing) as listing from source_file_row where listing > ?1
  union all select min(listing) from wanted_row where listing > ?1
);

-- name: next_held
select min(listing) from held_row where listing > ?;

-- name: is_listed
select exists (select 1 from listing where number = ?1 and what = ?2) or exists (select 1 from staged where number = ?1);

-- name: drop_listed_files
delete from source_file_row
where (listing, path, since) in (select listing, path, since from source_file_row where listing = ? limit ?);

-- name: drop_listed_wanted
delete from wanted_row
where (listing, path, position, since) in (
  select listing, path, position, since from wanted_row where listing = ? limit ?
);

-- name: drop_listed_held
delete from held_row
where (listing, why, kind, name) in (select listing, why, kind, name from held_row where listing = ? limit ?);

-- Redacting

-- name: versions_of
select version, body, secrets, checksum from version where project = ? and kind = ? and name = ? order by version;

-- Every run of the project is looked through: what a sentence quotes nobody indexes.
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
update audit_row set detail = ?, salt = null where id = cast(? as integer);

-- What is to be done about the traces: `vacuum`, then `checkpoint`; nothing when there is no such fact.
-- name: traces
select value from fact where key = 'traces';

-- name: put_traces
insert or replace into fact (key, value) values ('traces', ?);

-- name: forget_traces
delete from fact where key = 'traces';

-- name: explain_head
update resource_row set origin = ?1
where project = ?2 and kind = ?3 and name = ?4 and version = ?5 and origin is ?6 and since <= ?7 and ifnull(until > ?7, 1);

-- name: explain_version
update version_row set origin = ? where project = ? and kind = ? and name = ? and version = ? and origin = ?;

-- name: forget_references
delete from reference_row where project = ? and kind = ? and name = ? and since <= ?;

-- name: insert_reference
insert into reference_row (project, kind, name, target_kind, target_name, since) values (?, ?, ?, ?, ?, ?);

-- name: remove_head
delete from resource_row where project = ? and kind = ? and name = ? and since <= ?;

-- name: insert_change
insert into audit_row (id, project, action, kind, name, version_before, version_after, origin, since)
values (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_audit
insert into audit_row (id, at, project, actor, action, kind, name, version_before, version_after, run, request, detail,
                       address, salt, since)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- The lists of a repository

-- name: listing
select number from listing where repository = ? and what = ?;

-- name: put_listing
insert or replace into listing (repository, what, number) values (?, ?, ?);

-- Nobody sees its rows any more; they are swept.
-- name: forget_listing
delete from listing where repository = ? and what = ?;

-- name: forget_file
delete from source_file_row where listing = ? and path = ? and since <= ?;

-- name: forget_wanted
delete from wanted_row where listing = ? and path = ? and since <= ?;

-- name: put_file
insert into source_file_row (listing, path, since, blob, vacant, given)
values (?1, ?2,
        ifnull((select f.since from source_file_row f
                where f.listing = ?1 and f.path = ?2 and f.since <= ?6 and ifnull(f.until > ?6, 1)), 0),
        ?3, ?4, ?5)
on conflict (listing, path, since) do update
set until = null, blob = excluded.blob, vacant = excluded.vacant, given = excluded.given;

-- name: put_wanted
insert into wanted_row (listing, path, position, since, kind, name, digest, unconverged)
values (?1, ?2, ?3,
        ifnull((select w.since from wanted_row w
                where w.listing = ?1 and w.path = ?2 and w.position = ?3
                  and w.since <= ?8 and ifnull(w.until > ?8, 1)), 0),
        ?4, ?5, ?6, ?7)
on conflict (listing, path, position, since) do update
set until = null, kind = excluded.kind, name = excluded.name, digest = excluded.digest,
    unconverged = excluded.unconverged;

-- name: put_held
insert or replace into held_row (listing, kind, name, why) values (?, ?, ?, ?);

-- name: insert_run
insert into run (id, project, repository, trigger, actor, commit_id, outcome, message, counts, rewound, started_at,
                 finished_at, duration_ms)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

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

-- name: release_resources
update resource_row
set owner = null, path = null, line = null, drifted = 0, place = 0,
    status = cast(json_remove(cast(status as text), '$.drift') as blob)
where owner = ?1 and since <= ?2 and ifnull(until > ?2, 1);

-- name: remove_repository
delete from repository where name = ?;

-- Who may do what

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
insert into user (id, name, display_name, organization_admin, password, created_at, issuer, subject, email, losses)
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

-- name: put_auth_type
insert or replace into fact (key, value) values ('auth_type', ?);

-- What somebody should look at

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

-- What something refers to and that says of itself that it is deprecated. Canonical JSON has one way to write that, which
-- may stand elsewhere in a document as well.
-- name: deprecated_in_use
select r.kind, r.name, v.body
from (select distinct target_kind, target_name from reference where project = ?1) f
cross join resource r on r.project = ?1 and r.kind = f.target_kind and r.name = f.target_name
join version_row v on v.id = r.version_id
where instr(v.body, cast('"deprecated":true' as blob)) > 0
  and case when json_valid(cast(v.body as text)) then json_extract(cast(v.body as text), '$.metadata.deprecated') end = 1
order by r.kind, r.name
limit ?2;

-- name: users
select kind, name from reference
where project = ? and target_kind = ? and target_name = ?
order by kind, name;

-- Checksums

-- name: unchecked
select id, kind, name, version, body, secrets from version_row where checksum is null order by id limit ?;

-- name: put_checksum
update version_row set checksum = ? where id = ?;

-- name: examined
select id, project, kind, name, version, body, secrets, checksum from version where id > ? order by id limit ?;

-- The audit

-- No number is used again, so that what is told of an event is never of another.
-- name: last_event
select max(ifnull((select max(id) from audit_row), 0), (select last_event from audit_anchor where id = 1));

-- name: salt
select randomblob(?);

-- name: event
select a.id, ifnull(a.at, o.created_at), a.project, ifnull(a.actor, o.actor), a.action, a.kind, a.name, a.version_before,
       a.version_after, ifnull(a.run, o.run), ifnull(a.request, o.request), a.detail, a.address, a.salt
from audit_row a
left join origin o on o.id = a.origin
where a.id = cast(? as integer);

-- name: last_link
select number, hash from audit_link where number = (select max(number) from audit_link);

-- name: insert_link
insert into audit_link (number, hash, events, first_at, last_at, address, content, checked) values (?, ?, ?, ?, ?, ?, ?, 1);

-- name: insert_span
insert into audit_span (link, first, last, since) values (?, ?, ?, ?);

-- name: insert_rewrite
insert into audit_rewrite (event, link, before, after) values (?, ?, ?, ?);

-- Newest first: links in the order of the commits, and what was written ahead before what its commit added. The loops go
-- as they are written, so that nothing is sorted. A key's event has its id as the name, and what it is called beside it.
-- name: audit_events
select l.number, a.id, ifnull(a.at, o.created_at) as at, a.project, ifnull(a.actor, o.actor) as actor, a.action, a.kind,
       a.name, a.version_before, a.version_after, ifnull(a.run, o.run), ifnull(a.request, o.request), a.detail,
       ifnull(a.address, l.address)
from audit_span s
cross join audit_link l on l.number = s.link
cross join audit_row a on a.id between s.first and s.last and +a.since = s.since
left join origin o on o.id = a.origin
where s.link <= ?1 and (s.link < ?1 or a.id < ?2)
  and (?3 is null or l.last_at >= ?3) and (?4 is null or l.first_at < ?4)
  and (?5 is null or a.project in (select value from json_each(?5)))
  and (?6 is null or a.kind = ?6) and (?7 is null or a.action = ?7)
  and (?8 is null or ifnull(a.actor, o.actor) = ?8)
  and (?3 is null or ifnull(a.at, o.created_at) >= ?3)
  and (?4 is null or ifnull(a.at, o.created_at) < ?4)
  and (?10 is null or a.name = ?10
       or (?6 = 'Key' and case when json_valid(a.detail) then json_extract(a.detail, '$.name') end = ?10))
order by s.link desc, s.first desc, a.id desc
limit ?9;

-- Whether more events than so many have a name.
-- name: is_common_name
select 1 from audit_row where name = ? limit 1 offset ?;

-- The same for one name, of which there are few: found by it, and sorted.
-- name: audit_events_of_name
select l.number, a.id, ifnull(a.at, o.created_at) as at, a.project, ifnull(a.actor, o.actor) as actor, a.action, a.kind,
       a.name, a.version_before, a.version_after, ifnull(a.run, o.run), ifnull(a.request, o.request), a.detail,
       ifnull(a.address, l.address)
from audit_row a
cross join audit_span s on s.since = a.since and s.first = (
  select max(x.first) from audit_span x where x.since = a.since and x.first <= a.id
) and s.last >= a.id
cross join audit_link l on l.number = s.link
left join origin o on o.id = a.origin
where a.name = ?10 and l.number <= ?1 and (l.number < ?1 or a.id < ?2)
  and (?5 is null or a.project in (select value from json_each(?5)))
  and (?6 is null or a.kind = ?6) and (?7 is null or a.action = ?7)
  and (?8 is null or ifnull(a.actor, o.actor) = ?8)
  and (?3 is null or ifnull(a.at, o.created_at) >= ?3)
  and (?4 is null or ifnull(a.at, o.created_at) < ?4)
order by l.number desc, a.id desc
limit ?9;

-- One version as its history shows it.
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

-- name: oldest_links
select number, hash, events, first_at, last_at, address, checked, content from audit_link order by number limit ?;

-- name: last_event_until
select ifnull(max(last), 0) from audit_span where link <= ?;

-- name: put_anchor
update audit_anchor
set number = ?1, hash = ?2, events = events + ?3, last_event = max(last_event, ?4), proof = ?5
where id = 1;

-- name: remove_links
delete from audit_link where number <= ?;

-- name: remove_rewrites
delete from audit_rewrite where link <= ?;

-- name: ended_span
select link, first, last, since from audit_span
where link <= (select number from audit_anchor where id = 1)
order by link, first
limit 1;

-- name: sweep_events
delete from audit_row
where id in (select id from audit_row where id between ? and ? and since = ? order by id limit ?);

-- name: remove_span
delete from audit_span where link = ? and first = ?;

-- Verifying

-- name: audit_anchor
select number, hash, events, last_event, proof from audit_anchor where id = 1;

-- name: links
select number, hash, events, first_at, last_at, address, checked, content from audit_link order by number;

-- The events of one link, or of all in order. The two hashes are of an event that was redacted: what its own link
-- covers, and what the last redaction left.
-- name: chained_events
select s.link, a.id, ifnull(a.at, o.created_at), a.project, ifnull(a.actor, o.actor), a.action, a.kind, a.name,
       a.version_before, a.version_after, ifnull(a.run, o.run), ifnull(a.request, o.request), a.detail, a.address, a.salt,
       (select w.before from audit_rewrite w where w.event = a.id order by w.link limit 1),
       (select w.after from audit_rewrite w where w.event = a.id order by w.link desc limit 1)
from audit_span s
cross join audit_row a on a.id between s.first and s.last and +a.since = s.since
left join origin o on o.id = a.origin
where s.link > (select number from audit_anchor where id = 1) and (?1 is null or s.link = ?1)
order by s.link, s.first, a.id;

-- name: rewrites_of_link
select event, before, after from audit_rewrite where link = ? order by event;

-- name: rewrites_in_all
select count(*) from audit_rewrite;

-- name: redaction_of_link
select a.id
from audit_span s
cross join audit_row a on a.id between s.first and s.last and +a.since = s.since
where s.link = ? and a.action = 'redacted'
order by s.first, a.id
limit 1;

-- Events that readers of the store see and that no link holds.
-- name: stray_event
select a.id from audit_row a
where a.since <= (select value from fact where key = 'revision')
  and ifnull((select x.last from audit_span x where x.since = a.since and x.first <= a.id
              order by x.first desc limit 1), a.id - 1) < a.id
order by a.id
limit 1;
