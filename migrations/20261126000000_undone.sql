-- Redo: a reduction that was taken back can come into force again.

-- The revision at which it was taken back; null while it is in force. A mark says once for ever what took it back, and
-- what took it back may be taken back itself; the list of reductions wants to know how that ends.
alter table job add column undone_revision integer;

update job set undone_revision = (
    select voided_revision from mark where mark.session_id = job.session_id and mark.revision = job.ended_revision
) where state = 3;
