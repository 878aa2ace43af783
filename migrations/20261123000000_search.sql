-- Finding old dialogue, so that a view can bring back what its last request asks for.
--
-- Both tables follow from messages and parts and say nothing that these do not: they are filled behind the appends, in
-- the background or before somebody searches, and nothing is under a hash. What a search finds is read from the rows.

-- The words of messages; the rowid is the message's. What counts as a word is decided by the code that fills it, so that
-- every script is cut in one place: here words come with blanks between them. Each has its session's number and `_` in
-- front of it, so that a search reads the postings of one session only.
-- The texts themselves are not kept (content), nor where in a message a word stands (detail): the message is read
-- anyway. Rows can be taken out again, should a message ever be erased.
create virtual table search using fts5 (
    words,
    content = '',
    contentless_delete = 1,
    detail = none,
    tokenize = "ascii tokenchars '_'"
);

-- How far each session is filled in; a session that nobody searches has no row.
create table search_mark (
    session_id integer primary key references session (id),
    revision integer not null                       -- every message sealed by then is there
) strict;
