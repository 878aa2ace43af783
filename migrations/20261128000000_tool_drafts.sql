-- Drafts of a tool's input and output, whose kinds are 3 and 4: what their parts have besides the text.

alter table draft add column call_id text;
alter table draft add column tool text;               -- of an input
alter table draft add column call_message blob;       -- of an output: the message of its call, if the client named it
