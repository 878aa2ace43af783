-- What a view token is checked with, and what usage is tied to the view with that a reply was given.

-- The key of the store's view tokens: random, made once, known to nobody outside. A copy of the store accepts what the
-- original gave out.
alter table store add column secret blob;
update store set secret = randomblob(32);

create trigger store_is_itself before update on store
begin select raise(abort, 'which store this is never changes'); end;
create trigger store_stays before delete on store
begin select raise(abort, 'which store this is never changes'); end;

-- The session's running total of estimates at an event: what came behind a view is the difference between two. Derived
-- data, which no chain vouches for; null in events from before this column.
alter table event add column appended_tokens integer;
