-- What a run changed in delivery, as JSON; null if nothing, and for the runs of earlier versions.
alter table run add column flows blob;
