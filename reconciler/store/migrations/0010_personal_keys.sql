-- A key belongs to a person, or to its project or the organization: those that there were are of the latter.

alter table api_key add column owner text references user (id) on delete cascade;  -- null: no person's

create index api_key_by_owner on api_key (owner) where owner is not null;
