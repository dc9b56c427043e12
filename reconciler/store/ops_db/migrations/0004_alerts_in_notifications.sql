-- Alerts that are due follow from the notification alone: `waiting` has the targets that are still to be told that it
-- began, and since when; `told_to` those that are to be told of its end. The cause is one member.

create temp table waiting as
select target, made_at,
       json_extract(cast(body as text), '$.notification.metadata.id') as about,
       json_extract(cast(body as text), '$.event') = 'opened' as is_beginning
from alert where json_valid(cast(body as text));

update notification set body = cast(json_set(
  json_remove(cast(body as text), '$.type', '$.subject', '$.project', '$.user', '$.told', '$.told_as'),
  '$.id', id,
  '$.cause', json_array(
    json_extract(cast(body as text), '$.type'),
    coalesce(json_extract(cast(body as text), '$.subject'), ''),
    coalesce(json_extract(cast(body as text), '$.project'), ''),
    coalesce(json_extract(cast(body as text), '$.user'), '')),
  '$.waiting', json((
    select json_group_object(target, made_at) from temp.waiting where about = notification.id and is_beginning)),
  '$.told_to', json((
    select json_group_array(target) from (
      select value as target from json_each(cast(body as text), '$.told_to')
      union
      select target from temp.waiting where about = notification.id and not is_beginning)
    where target not in (
      select target from temp.waiting where about = notification.id and is_beginning)))
) as blob)
where json_valid(cast(body as text));

drop table temp.waiting;
drop table alert;
drop table alert_target;
