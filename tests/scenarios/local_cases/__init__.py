"""Cases of a repository, each on a real daemon that follows one: nothing is deleted that was not really
deleted, what was last good is served, the state has a name and a sentence, and the repository recovers by itself.

Repositories on this machine are here, servers in `tests/scenarios/remote_cases`. Where each case is tested:

| case | test |
|---|---|
| no commit yet; all branches gone | `reconcile/test_heads` (is_empty, was_gone_with_all_others) |
| a branch absent, deleted, made again; HEAD names none | `test_heads`, `reconcile/test_heads` (vanishes) |
| the default branch is renamed | `test_heads` |
| force-push: back, to an unrelated root | `reconcile/test_heads` (rewritten), `reconcile/test_states` |
| force-push: sideways | `test_heads` |
| `a` becomes `a/b`, and back | `test_heads`, `git/remotes/test_mirrors` |
| tags, commits, other refs: moved, deleted, of other kinds | `test_refs` |
| the configured path is missing, is a file, is `../x` | `reconcile/test_states`, `settings/test_loading` |
| a hundred commits at once: the newest alone | `test_looks` |
| an unchanged head is not fetched, whatever it is called | `test_looks` |
| other settings or ignore rules at the same commit | `test_looks`, `reconcile/test_heads` (another_path) |
| ignore files: scope, order, unusable | `git/test_ignoring`, `worker/test_unreadable`, `reconcile/test_states` |
| the mirror: deleted, cut, garbled, empty, locked | `test_damage` |
| git or the service killed in the middle of a fetch | `test_damage`, `one_writer/test_kills` |
| the disk is full or read-only | `server/test_disks` |
| shallow, partial, SHA-256, reftable, bare, worktrees, submodules, alternates | `test_formats` |
| a repository of another user | `test_formats`, `git/remotes/test_permissions` |
| symbolic links, submodules, hostile names in a tree | `worker/test_unreadable`, `git/test_snapshots` |
| emptied and restored; protected | `reconcile/test_states`, `worker/test_unreadable` |
| a delete that is refused once, since the resource is in use | `reconcile/test_in_use` |
| suspended; removed from the settings | `reconcile/test_suspensions`, `reconcile/test_ownership` |
| every state | `test_states` says where |
"""
