-- One index fewer for each message: lookups by revision go by the class as well, of which there are four.
drop index message_revision;
drop index message_lane;
create unique index message_lane on message (session_id, lane, revision);
