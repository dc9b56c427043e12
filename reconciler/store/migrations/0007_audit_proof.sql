-- What a link's hash is of can be shown when the link has gone: so nobody can say of the anchor that it is older than it is.

alter table audit_link add column content blob;   -- the hash of what it holds; null in those from before this column

-- The bytes that the hash of the last link that went is of, its instants among them (`store.chaining.proof`).
alter table audit_anchor add column proof blob;
