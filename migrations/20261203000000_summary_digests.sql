-- What summaries were made from, so that the next one is made from the originals of this one too.

-- A digest of what the summary of the compaction covers, compressed, while it is the newest one; null if there is no summary, if
-- it was erased, and if a newer summary took its place. It follows from messages, so that it is under no event's hash.
alter table job add column digest blob;
