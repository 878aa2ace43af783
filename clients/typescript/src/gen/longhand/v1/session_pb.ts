// Errors
//
// Every error has a `google.rpc.ErrorInfo` with the domain `longhand`, a reason, and metadata with every changing part of
// its message. Each reason has one code. New reasons may appear; none changes its meaning. The third column is the
// outcome of a call that writes: nothing was written; unknown, so the call is sent again with the same `request_id`; or
// done, and the same call sent again returns the answer.
//
// Reasons that any call may end with; TOO_MANY_REQUESTS, TOO_MANY_ATTEMPTS, RATE_LIMITED and STORE_BUSY have a
// `google.rpc.RetryInfo`:
//
//   STORE_BUSY               UNAVAILABLE          nothing
//   OUTCOME_UNCERTAIN        UNAVAILABLE          unknown
//   STORE_STOPPED            UNAVAILABLE          nothing  cause
//   LEASE_LOST               UNAVAILABLE          unknown
//   NO_OWNER                 UNAVAILABLE          nothing  shard, if one is the cause
//   STORAGE_FULL             RESOURCE_EXHAUSTED   nothing
//   STORAGE_READ_ONLY        UNAVAILABLE          nothing
//   ANSWER_LOST              INTERNAL             done     those of the failed read
//   ROW_CORRUPT              DATA_LOSS            nothing  table, row
//   SHUTTING_DOWN            UNAVAILABLE          unknown  cursor of an event stream
//   ACCESS_TOKEN_MISSING     UNAUTHENTICATED      nothing
//   ACCESS_TOKEN_INVALID     UNAUTHENTICATED      nothing
//   SCOPE_MISSING            PERMISSION_DENIED    nothing  scope
//   TOO_MANY_ATTEMPTS        RESOURCE_EXHAUSTED   nothing
//   RATE_LIMITED             RESOURCE_EXHAUSTED   nothing  quota, limit
//   QUOTA_EXCEEDED           RESOURCE_EXHAUSTED   nothing  quota, limit
//   SECRET_REFUSED           INVALID_ARGUMENT     nothing  rule; field, except of a draft's text, whose draft is gone
//   ACCESS_LOG_FAILED        UNAVAILABLE          unknown
//   ORIGIN_REFUSED           PERMISSION_DENIED    nothing  host, origin
//   CONSOLE_TOKEN_INVALID    PERMISSION_DENIED    nothing
//   CONSOLE_LINK_INVALID     UNAUTHENTICATED      nothing
//   TOO_MANY_REQUESTS        RESOURCE_EXHAUSTED   nothing  limit
//   REQUEST_TIMED_OUT        DEADLINE_EXCEEDED    nothing  limit_ms
//   REQUEST_TOO_LARGE        RESOURCE_EXHAUSTED   nothing  limit
//   REQUEST_MALFORMED        INVALID_ARGUMENT     nothing
//   ENCODING_UNKNOWN         UNIMPLEMENTED        nothing  known
//   METHOD_UNKNOWN           UNIMPLEMENTED        nothing
//   INTERNAL                 INTERNAL             nothing
//
// Reasons that the comments of the calls name:
//
//   SESSION_NOT_FOUND        NOT_FOUND            nothing  session_id
//   MESSAGE_NOT_FOUND        NOT_FOUND            nothing  message_id or part_id
//   DRAFT_NOT_FOUND          NOT_FOUND            nothing  part_id
//   COMPACTION_NOT_FOUND     NOT_FOUND            nothing  compaction_id
//   CALL_NOT_FOUND           NOT_FOUND            nothing  call_id
//   SHARD_NOT_FOUND          NOT_FOUND            nothing  shard
//   DAEMON_NOT_FOUND         NOT_FOUND            nothing  daemon_id
//   CALL_ANSWERED            FAILED_PRECONDITION  nothing  call_id
//   PRESET_NOT_FOUND         NOT_FOUND            nothing  preset
//   SUMMARY_TASK_NOT_FOUND   NOT_FOUND            nothing  compaction_id
//   INVALID_FIELD            INVALID_ARGUMENT     nothing  field
//   POLICY_INVALID           INVALID_ARGUMENT     nothing  field
//   LIMIT_EXCEEDED           INVALID_ARGUMENT     nothing  what, limit, actual (not of a request's list)
//   REQUEST_ID_REUSED        INVALID_ARGUMENT     nothing  request_id
//   CLIENT_ID_REUSED         ALREADY_EXISTS       nothing  client_id
//   PAGE_TOKEN_INVALID       INVALID_ARGUMENT     nothing
//   CURSOR_INVALID           INVALID_ARGUMENT     nothing
//   CURSOR_FOREIGN           FAILED_PRECONDITION  nothing
//   CURSOR_OUT_OF_RANGE      OUT_OF_RANGE         nothing  head_seq, cursor_seq
//   VIEW_TOKEN_INVALID       INVALID_ARGUMENT     nothing  revision
//   REVISION_OUT_OF_RANGE    OUT_OF_RANGE         nothing  revision, newest_revision
//   REVISION_MISMATCH        ABORTED              nothing  expected_revision, current_revision
//   LAST_MESSAGE_MISMATCH    ABORTED              nothing  expected_last_message_id, last_message_id
//   SESSION_ARCHIVED         FAILED_PRECONDITION  nothing
//   MESSAGE_SEALED           FAILED_PRECONDITION  nothing
//   MESSAGE_EXPIRED          FAILED_PRECONDITION  nothing
//   MESSAGE_OPEN             FAILED_PRECONDITION  nothing
//   OFFSET_MISMATCH          ABORTED              nothing  offset_bytes, length_bytes
//   BOUNDARY_INVALID         FAILED_PRECONDITION  nothing  message_id, if one is the cause
//   NOTHING_TO_COMPACT       FAILED_PRECONDITION  nothing
//   NOTHING_TO_UNDO          FAILED_PRECONDITION  nothing
//   NOTHING_TO_REDO          FAILED_PRECONDITION  nothing
//   NOTHING_TO_ERASE         FAILED_PRECONDITION  nothing
//   SESSION_ERASED           FAILED_PRECONDITION  nothing
//   CONTENT_ERASED           FAILED_PRECONDITION  nothing
//   REDO_OVERTAKEN           FAILED_PRECONDITION  nothing  revision
//   COMPACTION_ENDED         FAILED_PRECONDITION  nothing
//   TOO_MANY_COMPACTIONS     RESOURCE_EXHAUSTED   nothing  limit
//   AUTOMATIC_OFF            FAILED_PRECONDITION  nothing
//   OVERFLOW_NOT_RECOGNIZED  INVALID_ARGUMENT     nothing
//   OVERFLOW_AGAIN           FAILED_PRECONDITION  nothing
//   SUMMARY_TASKS_OFF        FAILED_PRECONDITION  nothing
//   SUMMARY_LEASE_LOST       FAILED_PRECONDITION  nothing
//   SUMMARY_REFUSED          INVALID_ARGUMENT     nothing  failure
//   SEARCH_UNAVAILABLE       UNAVAILABLE          nothing
//   VIEW_TOO_LARGE           RESOURCE_EXHAUSTED   nothing  limit, actual
//   CONTENT_NOT_IN_FORMAT    FAILED_PRECONDITION  nothing  format, content, message_id, part_id
//   TOO_MANY_VIEWS           RESOURCE_EXHAUSTED   nothing  limit
//   TOO_MANY_STREAMS         RESOURCE_EXHAUSTED   nothing  limit
//   READER_STALLED           RESOURCE_EXHAUSTED   unknown  cursor of an event stream
//   SOCKET_REQUIRED          PERMISSION_DENIED    nothing
//   ACCESS_TOKEN_NOT_FOUND   NOT_FOUND            nothing  access_token_id
//   RUN_NOT_FOUND            NOT_FOUND            nothing  run_id or session_id
//   PROMPT_NOT_FOUND         NOT_FOUND            nothing  prompt_id
//   APPROVAL_NOT_FOUND       NOT_FOUND            nothing  approval_id
//   RUN_LOST                 ABORTED              nothing  epoch, current_epoch if a run is active
//   RUN_ACTIVE               FAILED_PRECONDITION  nothing  epoch, actor
//   NO_PROMPT                FAILED_PRECONDITION  nothing
//   PROMPT_ENDED             FAILED_PRECONDITION  nothing  end
//   APPROVAL_ENDED           FAILED_PRECONDITION  nothing  actor, choice
//   ARCHIVE_INVALID          INVALID_ARGUMENT     nothing
//   ARCHIVE_CONFLICT         ALREADY_EXISTS       nothing  session_id
//   ARCHIVE_OVERTAKEN        ABORTED              nothing  session_id
//   BACKUP_EXISTS            ALREADY_EXISTS       nothing  path
//   BACKUP_RUNNING           ABORTED              nothing
//   BACKUP_FAILED            FAILED_PRECONDITION  nothing
//   BACKUP_DAMAGED           DATA_LOSS            nothing  findings
//
// DEADLINE_EXCEEDED and CANCELLED by the caller's own deadline or cancellation have no reason; their outcome is unknown.

// @generated by protoc-gen-es v2.12.0 with parameter "target=ts,import_extension=js"
// @generated from file longhand/v1/session.proto (package longhand.v1, syntax proto3)
/* eslint-disable */

import type { GenEnum, GenFile, GenMessage, GenService } from "@bufbuild/protobuf/codegenv2";
import { enumDesc, fileDesc, messageDesc, serviceDesc } from "@bufbuild/protobuf/codegenv2";
import { file_google_api_annotations } from "../../google/api/annotations_pb.js";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { file_google_protobuf_timestamp } from "@bufbuild/protobuf/wkt";
import { file_longhand_v1_options } from "./options_pb.js";
import type { Message } from "@bufbuild/protobuf";

/**
 * Describes the file longhand/v1/session.proto.
 */
export const file_longhand_v1_session: GenFile = /*@__PURE__*/
  fileDesc("Chlsb25naGFuZC92MS9zZXNzaW9uLnByb3RvEgtsb25naGFuZC52MSLJBwoHU2Vzc2lvbhISCgpzZXNzaW9uX2lkGAEgASgJEhYKCWNsaWVudF9pZBgCIAEoCUgAiAEBEg0KBXRpdGxlGAMgASgJEigKBXN0YXRlGAQgASgOMhkubG9uZ2hhbmQudjEuU2Vzc2lvblN0YXRlEh4KEXBhcmVudF9zZXNzaW9uX2lkGAUgASgJSAGIAQESHgoRc291cmNlX3Nlc3Npb25faWQYBiABKAlIAogBARIcCg9zb3VyY2VfcmV2aXNpb24YByABKANIA4gBARIOCgZwcmVzZXQYCCABKAkSEwoLcG9saWN5X2pzb24YCSABKAkSKAoGd2luZG93GAogASgLMhgubG9uZ2hhbmQudjEuTW9kZWxXaW5kb3cSGgoNbWV0YWRhdGFfanNvbhgLIAEoCUgEiAEBEhAKCHJldmlzaW9uGAwgASgDEhgKEGhpc3RvcnlfcmV2aXNpb24YDSABKAMSFQoNbWVzc2FnZV9jb3VudBgOIAEoAxIbCg5jb250ZXh0X3Rva2VucxgPIAEoA0gFiAEBEh0KEGNvbnRleHRfcmV2aXNpb24YECABKANIBogBARIvCgtjcmVhdGVfdGltZRgRIAEoCzIaLmdvb2dsZS5wcm90b2J1Zi5UaW1lc3RhbXASLwoLdXBkYXRlX3RpbWUYEiABKAsyGi5nb29nbGUucHJvdG9idWYuVGltZXN0YW1wEiwKC2d1YXJkX3N0YXRlGBMgASgLMhcubG9uZ2hhbmQudjEuR3VhcmRTdGF0ZRIOCgZ0ZW5hbnQYFCABKAkSDQoFYWN0b3IYFSABKAkSDgoGbGFiZWxzGBYgAygJEi0KC3VzYWdlX3RvdGFsGBcgASgLMhgubG9uZ2hhbmQudjEuVXNhZ2VUb3RhbHMSLwoKdGhyZXNob2xkcxgYIAMoCzIbLmxvbmdoYW5kLnYxLkxldmVsVGhyZXNob2xkEjUKEW9yaWdpbl9zdGFydF90aW1lGBkgASgLMhouZ29vZ2xlLnByb3RvYnVmLlRpbWVzdGFtcBIzCg9vcmlnaW5fZW5kX3RpbWUYGiABKAsyGi5nb29nbGUucHJvdG9idWYuVGltZXN0YW1wQgwKCl9jbGllbnRfaWRCFAoSX3BhcmVudF9zZXNzaW9uX2lkQhQKEl9zb3VyY2Vfc2Vzc2lvbl9pZEISChBfc291cmNlX3JldmlzaW9uQhAKDl9tZXRhZGF0YV9qc29uQhEKD19jb250ZXh0X3Rva2Vuc0ITChFfY29udGV4dF9yZXZpc2lvbiKjAQoLVXNhZ2VUb3RhbHMSFAoMaW5wdXRfdG9rZW5zGAEgASgDEhUKDW91dHB1dF90b2tlbnMYAiABKAMSGAoQcmVhc29uaW5nX3Rva2VucxgDIAEoAxIZChFjYWNoZV9yZWFkX3Rva2VucxgEIAEoAxIaChJjYWNoZV93cml0ZV90b2tlbnMYBSABKAMSFgoOY29zdF9taWNyb191c2QYBiABKAMi0wEKCkd1YXJkU3RhdGUSFQoNZmFpbHVyZV9jb3VudBgBIAEoBRIXCg9ob2xkX3R1cm5fY291bnQYAiABKAUSLAoLaG9sZF9yZWFzb24YAyABKA4yFy5sb25naGFuZC52MS5Ib2xkUmVhc29uEjUKEWNvb2xkb3duX2VuZF90aW1lGAQgASgLMhouZ29vZ2xlLnByb3RvYnVmLlRpbWVzdGFtcBIcCg9vdmVyaGVhZF90b2tlbnMYBSABKANIAIgBAUISChBfb3ZlcmhlYWRfdG9rZW5zIuYBCgtNb2RlbFdpbmRvdxINCgVtb2RlbBgBIAEoCRIaChJtYXhfY29udGV4dF90b2tlbnMYAiABKAMSHQoQbWF4X2lucHV0X3Rva2VucxgDIAEoA0gAiAEBEh4KEW1heF9vdXRwdXRfdG9rZW5zGAQgASgDSAGIAQESFwoPb3ZlcmhlYWRfdG9rZW5zGAUgASgDEikKBnNvdXJjZRgGIAEoDjIZLmxvbmdoYW5kLnYxLldpbmRvd1NvdXJjZUITChFfbWF4X2lucHV0X3Rva2Vuc0IUChJfbWF4X291dHB1dF90b2tlbnMifwoOTGV2ZWxUaHJlc2hvbGQSKwoFbGV2ZWwYASABKA4yHC5sb25naGFuZC52MS5Db21wYWN0aW9uTGV2ZWwSEgoKZHVlX3Rva2VucxgCIAEoAxIaCg11bm1ldF9tZXNzYWdlGAMgASgJSACIAQFCEAoOX3VubWV0X21lc3NhZ2UisQIKFENyZWF0ZVNlc3Npb25SZXF1ZXN0EhYKCWNsaWVudF9pZBgBIAEoCUgAiAEBEg0KBXRpdGxlGAIgASgJEg4KBnByZXNldBgDIAEoCRIcChRwb2xpY3lfb3ZlcnJpZGVfanNvbhgEIAEoCRITCgtwb2xpY3lfanNvbhgFIAEoCRIoCgZ3aW5kb3cYBiABKAsyGC5sb25naGFuZC52MS5Nb2RlbFdpbmRvdxIaCg1tZXRhZGF0YV9qc29uGAcgASgJSAGIAQESHgoRcGFyZW50X3Nlc3Npb25faWQYCCABKAlIAogBARITCgtrZWVwX2VyYXNlZBgJIAEoCEIMCgpfY2xpZW50X2lkQhAKDl9tZXRhZGF0YV9qc29uQhQKEl9wYXJlbnRfc2Vzc2lvbl9pZCKxAQoVQ3JlYXRlU2Vzc2lvblJlc3BvbnNlEiUKB3Nlc3Npb24YASABKAsyFC5sb25naGFuZC52MS5TZXNzaW9uEg8KB2V4aXN0ZWQYAiABKAgSKwoKZHVyYWJpbGl0eRgDIAEoDjIXLmxvbmdoYW5kLnYxLkR1cmFiaWxpdHkSMwoPc2VjcmV0X2ZpbmRpbmdzGAQgAygLMhoubG9uZ2hhbmQudjEuU2VjcmV0RmluZGluZyInChFHZXRTZXNzaW9uUmVxdWVzdBISCgpzZXNzaW9uX2lkGAEgASgJIpcCChJHZXRTZXNzaW9uUmVzcG9uc2USJQoHc2Vzc2lvbhgBIAEoCzIULmxvbmdoYW5kLnYxLlNlc3Npb24SMQoLb3Zlcl93aW5kb3cYAiABKAsyFy5sb25naGFuZC52MS5PdmVyV2luZG93SACIAQESKQoKc2FpZF9saW5lcxgDIAMoCzIVLmxvbmdoYW5kLnYxLlNhaWRMaW5lEi4KDG1hcmtlZF93b3JkcxgEIAMoCzIYLmxvbmdoYW5kLnYxLk1hcmtlZFdvcmRzEjwKE3Byb3ZpZGVyX2NvbXBhY3Rpb24YBSABKAsyHy5sb25naGFuZC52MS5Qcm92aWRlckNvbXBhY3Rpb25CDgoMX292ZXJfd2luZG93IkAKCFNhaWRMaW5lEgwKBHRleHQYASABKAkSFwoKbWVzc2FnZV9pZBgCIAEoCUgAiAEBQg0KC19tZXNzYWdlX2lkIksKC01hcmtlZFdvcmRzEhIKCm1lc3NhZ2VfaWQYASABKAkSKAoGc3RhbmNlGAIgASgOMhgubG9uZ2hhbmQudjEuV29yZHNTdGFuY2UifwoSUHJvdmlkZXJDb21wYWN0aW9uEhIKCm1lc3NhZ2VfaWQYASABKAkSDwoHcGFydF9pZBgCIAEoCRIQCghwcm92aWRlchgDIAEoCRIyCg5jb3ZlcmVkX3JhbmdlcxgEIAMoCzIaLmxvbmdoYW5kLnYxLlJldmlzaW9uUmFuZ2UiPgoNUmV2aXNpb25SYW5nZRIWCg5maXJzdF9yZXZpc2lvbhgBIAEoAxIVCg1sYXN0X3JldmlzaW9uGAIgASgDIpYBCgpPdmVyV2luZG93Ei0KBnJlYXNvbhgBIAEoDjIdLmxvbmdoYW5kLnYxLk92ZXJXaW5kb3dSZWFzb24SDwoHbWVzc2FnZRgCIAEoCRI2Cg13YWl0X2VuZF90aW1lGAMgASgLMhouZ29vZ2xlLnByb3RvYnVmLlRpbWVzdGFtcEgAiAEBQhAKDl93YWl0X2VuZF90aW1lIqsCChNMaXN0U2Vzc2lvbnNSZXF1ZXN0EhEKCXBhZ2Vfc2l6ZRgBIAEoBRISCgpwYWdlX3Rva2VuGAIgASgJEh4KEXBhcmVudF9zZXNzaW9uX2lkGAMgASgJSACIAQESGAoQaW5jbHVkZV9hcmNoaXZlZBgEIAEoCBIqCgZmaWx0ZXIYBSABKAsyGi5sb25naGFuZC52MS5TZXNzaW9uRmlsdGVyEigKBW9yZGVyGAYgASgOMhkubG9uZ2hhbmQudjEuU2Vzc2lvbk9yZGVyEioKBmRldGFpbBgHIAEoDjIaLmxvbmdoYW5kLnYxLlNlc3Npb25EZXRhaWwSGwoTaW5jbHVkZV9wYWdlX3Rva2VucxgIIAEoCEIUChJfcGFyZW50X3Nlc3Npb25faWQi8wQKDVNlc3Npb25GaWx0ZXISHAoPcm9vdF9zZXNzaW9uX2lkGAEgASgJSACIAQESFAoHcHJvamVjdBgCIAEoCUgBiAEBEhYKCWRpcmVjdG9yeRgDIAEoCUgCiAEBEhwKDm1ldGFkYXRhX3Rlcm1zGAQgAygJQgSQtRgQEhQKBmxhYmVscxgFIAMoCUIEkLUYEBISCgVhY3RvchgGIAEoCUgDiAEBEigKBXN0YXRlGAcgASgOMhkubG9uZ2hhbmQudjEuU2Vzc2lvblN0YXRlEhQKDHRpdGxlX3ByZWZpeBgIIAEoCRIYChBjbGllbnRfaWRfcHJlZml4GAkgASgJEjMKD21pbl9jcmVhdGVfdGltZRgKIAEoCzIaLmdvb2dsZS5wcm90b2J1Zi5UaW1lc3RhbXASMwoPbWF4X2NyZWF0ZV90aW1lGAsgASgLMhouZ29vZ2xlLnByb3RvYnVmLlRpbWVzdGFtcBIzCg9taW5fdXBkYXRlX3RpbWUYDCABKAsyGi5nb29nbGUucHJvdG9idWYuVGltZXN0YW1wEjMKD21heF91cGRhdGVfdGltZRgNIAEoCzIaLmdvb2dsZS5wcm90b2J1Zi5UaW1lc3RhbXASMwoPbWluX29yaWdpbl90aW1lGA4gASgLMhouZ29vZ2xlLnByb3RvYnVmLlRpbWVzdGFtcBIzCg9tYXhfb3JpZ2luX3RpbWUYDyABKAsyGi5nb29nbGUucHJvdG9idWYuVGltZXN0YW1wQhIKEF9yb290X3Nlc3Npb25faWRCCgoIX3Byb2plY3RCDAoKX2RpcmVjdG9yeUIICgZfYWN0b3IibAoUTGlzdFNlc3Npb25zUmVzcG9uc2USJgoIc2Vzc2lvbnMYASADKAsyFC5sb25naGFuZC52MS5TZXNzaW9uEhcKD25leHRfcGFnZV90b2tlbhgCIAEoCRITCgtwYWdlX3Rva2VucxgDIAMoCSKoAQoUV2F0Y2hTZXNzaW9uc1JlcXVlc3QSHgoRcGFyZW50X3Nlc3Npb25faWQYASABKAlIAIgBARIYChBpbmNsdWRlX2FyY2hpdmVkGAIgASgIEioKBmZpbHRlchgDIAEoCzIaLmxvbmdoYW5kLnYxLlNlc3Npb25GaWx0ZXISFAoMYWZ0ZXJfY3Vyc29yGAQgASgJQhQKEl9wYXJlbnRfc2Vzc2lvbl9pZCKIAgoVV2F0Y2hTZXNzaW9uc1Jlc3BvbnNlEg4KBmN1cnNvchgBIAEoCRI0Cg1zbmFwc2hvdF9wYWdlGAIgASgLMhsubG9uZ2hhbmQudjEuTGlzdGVkU2Vzc2lvbnNIABI3CgxzbmFwc2hvdF9lbmQYAyABKAsyHy5sb25naGFuZC52MS5TZXNzaW9uU25hcHNob3RFbmRIABIxCgZjaGFuZ2UYBCABKAsyHy5sb25naGFuZC52MS5TZXNzaW9uTGlzdENoYW5nZXNIABI0Cghwcm9ncmVzcxgFIAEoCzIgLmxvbmdoYW5kLnYxLlNlc3Npb25MaXN0UHJvZ3Jlc3NIAEIHCgVmcmFtZSI4Cg5MaXN0ZWRTZXNzaW9ucxImCghzZXNzaW9ucxgBIAMoCzIULmxvbmdoYW5kLnYxLlNlc3Npb24iFAoSU2Vzc2lvblNuYXBzaG90RW5kImEKElNlc3Npb25MaXN0Q2hhbmdlcxIuChBjaGFuZ2VkX3Nlc3Npb25zGAEgAygLMhQubG9uZ2hhbmQudjEuU2Vzc2lvbhIbChNyZW1vdmVkX3Nlc3Npb25faWRzGAIgAygJIhUKE1Nlc3Npb25MaXN0UHJvZ3Jlc3Mi8AIKFFVwZGF0ZVNlc3Npb25SZXF1ZXN0EhIKCnNlc3Npb25faWQYASABKAkSEgoFdGl0bGUYAiABKAlIAIgBARIaCg1tZXRhZGF0YV9qc29uGAMgASgJSAGIAQESKAoGd2luZG93GAQgASgLMhgubG9uZ2hhbmQudjEuTW9kZWxXaW5kb3cSEwoGcHJlc2V0GAUgASgJSAKIAQESIQoUcG9saWN5X292ZXJyaWRlX2pzb24YBiABKAlIA4gBARIYCgtwb2xpY3lfanNvbhgHIAEoCUgEiAEBEh4KEWV4cGVjdGVkX3JldmlzaW9uGAggASgDSAWIAQESEgoKcmVxdWVzdF9pZBgJIAEoCUIICgZfdGl0bGVCEAoOX21ldGFkYXRhX2pzb25CCQoHX3ByZXNldEIXChVfcG9saWN5X292ZXJyaWRlX2pzb25CDgoMX3BvbGljeV9qc29uQhQKEl9leHBlY3RlZF9yZXZpc2lvbiK/AQoVVXBkYXRlU2Vzc2lvblJlc3BvbnNlEiUKB3Nlc3Npb24YASABKAsyFC5sb25naGFuZC52MS5TZXNzaW9uEhAKCHJldmlzaW9uGAIgASgDEgsKA3NlcRgDIAEoAxIrCgpkdXJhYmlsaXR5GAQgASgOMhcubG9uZ2hhbmQudjEuRHVyYWJpbGl0eRIzCg9zZWNyZXRfZmluZGluZ3MYBSADKAsyGi5sb25naGFuZC52MS5TZWNyZXRGaW5kaW5nIlAKFUFyY2hpdmVTZXNzaW9uUmVxdWVzdBISCgpzZXNzaW9uX2lkGAEgASgJEg8KB3Jlc3RvcmUYAiABKAgSEgoKcmVxdWVzdF9pZBgDIAEoCSKLAQoWQXJjaGl2ZVNlc3Npb25SZXNwb25zZRIlCgdzZXNzaW9uGAEgASgLMhQubG9uZ2hhbmQudjEuU2Vzc2lvbhIQCghyZXZpc2lvbhgCIAEoAxILCgNzZXEYAyABKAMSKwoKZHVyYWJpbGl0eRgEIAEoDjIXLmxvbmdoYW5kLnYxLkR1cmFiaWxpdHkiSAoPQWRkTGFiZWxSZXF1ZXN0EhIKCnNlc3Npb25faWQYASABKAkSDQoFbGFiZWwYAiABKAkSEgoKcmVxdWVzdF9pZBgDIAEoCSKFAQoQQWRkTGFiZWxSZXNwb25zZRIlCgdzZXNzaW9uGAEgASgLMhQubG9uZ2hhbmQudjEuU2Vzc2lvbhIQCghyZXZpc2lvbhgCIAEoAxILCgNzZXEYAyABKAMSKwoKZHVyYWJpbGl0eRgEIAEoDjIXLmxvbmdoYW5kLnYxLkR1cmFiaWxpdHkiSwoSUmVtb3ZlTGFiZWxSZXF1ZXN0EhIKCnNlc3Npb25faWQYASABKAkSDQoFbGFiZWwYAiABKAkSEgoKcmVxdWVzdF9pZBgDIAEoCSKIAQoTUmVtb3ZlTGFiZWxSZXNwb25zZRIlCgdzZXNzaW9uGAEgASgLMhQubG9uZ2hhbmQudjEuU2Vzc2lvbhIQCghyZXZpc2lvbhgCIAEoAxILCgNzZXEYAyABKAMSKwoKZHVyYWJpbGl0eRgEIAEoDjIXLmxvbmdoYW5kLnYxLkR1cmFiaWxpdHkilgEKEkZvcmtTZXNzaW9uUmVxdWVzdBISCgpzZXNzaW9uX2lkGAEgASgJEhQKCm1lc3NhZ2VfaWQYAiABKAlIABIYCg5hc19vZl9yZXZpc2lvbhgDIAEoA0gAEhYKCWNsaWVudF9pZBgEIAEoCUgBiAEBEg0KBXRpdGxlGAUgASgJQgcKBXBvaW50QgwKCl9jbGllbnRfaWQirwEKE0ZvcmtTZXNzaW9uUmVzcG9uc2USJQoHc2Vzc2lvbhgBIAEoCzIULmxvbmdoYW5kLnYxLlNlc3Npb24SDwoHZXhpc3RlZBgCIAEoCBIrCgpkdXJhYmlsaXR5GAMgASgOMhcubG9uZ2hhbmQudjEuRHVyYWJpbGl0eRIzCg9zZWNyZXRfZmluZGluZ3MYBCADKAsyGi5sb25naGFuZC52MS5TZWNyZXRGaW5kaW5nImwKDVNlY3JldEZpbmRpbmcSDQoFZmllbGQYASABKAkSDAoEcnVsZRgCIAEoCRIpCgZhY3Rpb24YAyABKA4yGS5sb25naGFuZC52MS5TZWNyZXRBY3Rpb24SEwoLZm91bmRfY291bnQYBCABKAUiWgoKU2VjcmV0UnVsZRIMCgRydWxlGAEgASgJEikKBmFjdGlvbhgCIAEoDjIZLmxvbmdoYW5kLnYxLlNlY3JldEFjdGlvbhITCgtmb3VuZF9jb3VudBgDIAEoAypuCgpIb2xkUmVhc29uEhsKF0hPTERfUkVBU09OX1VOU1BFQ0lGSUVEEAASFAoQSE9MRF9SRUFTT05fTk9ORRABEhcKE0hPTERfUkVBU09OX0JSRUFLRVIQAhIUChBIT0xEX1JFQVNPTl9VTkRPEAMqfQoMU2Vzc2lvblN0YXRlEh0KGVNFU1NJT05fU1RBVEVfVU5TUEVDSUZJRUQQABIYChRTRVNTSU9OX1NUQVRFX0FDVElWRRABEhoKFlNFU1NJT05fU1RBVEVfQVJDSElWRUQQAhIYChRTRVNTSU9OX1NUQVRFX0VSQVNFRBADKoMBCgxXaW5kb3dTb3VyY2USHQoZV0lORE9XX1NPVVJDRV9VTlNQRUNJRklFRBAAEhgKFFdJTkRPV19TT1VSQ0VfQ0xJRU5UEAESGAoUV0lORE9XX1NPVVJDRV9NT0RFTFMQAhIgChxXSU5ET1dfU09VUkNFX1BST1ZJREVSX0VSUk9SEAMqhQEKD0NvbXBhY3Rpb25MZXZlbBIgChxDT01QQUNUSU9OX0xFVkVMX1VOU1BFQ0lGSUVEEAASGgoWQ09NUEFDVElPTl9MRVZFTF9NSUNSTxABEhkKFUNPTVBBQ1RJT05fTEVWRUxfQVVUTxACEhkKFUNPTVBBQ1RJT05fTEVWRUxfREVFUBADKnIKC1dvcmRzU3RhbmNlEhwKGFdPUkRTX1NUQU5DRV9VTlNQRUNJRklFRBAAEhUKEVdPUkRTX1NUQU5DRV9PUEVOEAESFwoTV09SRFNfU1RBTkNFX1NUUlVDSxACEhUKEVdPUkRTX1NUQU5DRV9LRVBUEAMq1wIKEE92ZXJXaW5kb3dSZWFzb24SIgoeT1ZFUl9XSU5ET1dfUkVBU09OX1VOU1BFQ0lGSUVEEAASHgoaT1ZFUl9XSU5ET1dfUkVBU09OX1BFTkRJTkcQARIjCh9PVkVSX1dJTkRPV19SRUFTT05fQ09ORklSTUFUSU9OEAISHAoYT1ZFUl9XSU5ET1dfUkVBU09OX1JFVFJZEAMSJAogT1ZFUl9XSU5ET1dfUkVBU09OX0FVVE9NQVRJQ19PRkYQBBIgChxPVkVSX1dJTkRPV19SRUFTT05fVU5ET19IT0xEEAUSJAogT1ZFUl9XSU5ET1dfUkVBU09OX0ZJWEVEX0NPTlRFTlQQBhIpCiVPVkVSX1dJTkRPV19SRUFTT05fTEFTVF9SRVNPUlRfRkFJTEVEEAcSIwofT1ZFUl9XSU5ET1dfUkVBU09OX09USEVSX1dJTkRPVxAIKrgBCgxTZXNzaW9uT3JkZXISHQoZU0VTU0lPTl9PUkRFUl9VTlNQRUNJRklFRBAAEh4KGlNFU1NJT05fT1JERVJfTkVXRVNUX0ZJUlNUEAESHgoaU0VTU0lPTl9PUkRFUl9PTERFU1RfRklSU1QQAhIkCiBTRVNTSU9OX09SREVSX0xBU1RfQ0hBTkdFRF9GSVJTVBADEiMKH1NFU1NJT05fT1JERVJfTEFTVF9DSEFOR0VEX0xBU1QQBCpiCg1TZXNzaW9uRGV0YWlsEh4KGlNFU1NJT05fREVUQUlMX1VOU1BFQ0lGSUVEEAASGAoUU0VTU0lPTl9ERVRBSUxfQkFTSUMQARIXChNTRVNTSU9OX0RFVEFJTF9GVUxMEAIqWwoKRHVyYWJpbGl0eRIaChZEVVJBQklMSVRZX1VOU1BFQ0lGSUVEEAASEwoPRFVSQUJJTElUWV9GVUxMEAESHAoYRFVSQUJJTElUWV9QUk9DRVNTX0NSQVNIEAIqeQoMU2VjcmV0QWN0aW9uEh0KGVNFQ1JFVF9BQ1RJT05fVU5TUEVDSUZJRUQQABIWChJTRUNSRVRfQUNUSU9OX1dBUk4QARIYChRTRUNSRVRfQUNUSU9OX1JFREFDVBACEhgKFFNFQ1JFVF9BQ1RJT05fUkVGVVNFEAMy/wgKDlNlc3Npb25TZXJ2aWNlEnMKDUNyZWF0ZVNlc3Npb24SIS5sb25naGFuZC52MS5DcmVhdGVTZXNzaW9uUmVxdWVzdBoiLmxvbmdoYW5kLnYxLkNyZWF0ZVNlc3Npb25SZXNwb25zZSIbiLUYAoLT5JMCEToBKiIML3YxL3Nlc3Npb25zEnQKCkdldFNlc3Npb24SHi5sb25naGFuZC52MS5HZXRTZXNzaW9uUmVxdWVzdBofLmxvbmdoYW5kLnYxLkdldFNlc3Npb25SZXNwb25zZSIliLUYAYLT5JMCGxIZL3YxL3Nlc3Npb25zL3tzZXNzaW9uX2lkfRJtCgxMaXN0U2Vzc2lvbnMSIC5sb25naGFuZC52MS5MaXN0U2Vzc2lvbnNSZXF1ZXN0GiEubG9uZ2hhbmQudjEuTGlzdFNlc3Npb25zUmVzcG9uc2UiGIi1GAGC0+STAg4SDC92MS9zZXNzaW9ucxJ4Cg1XYXRjaFNlc3Npb25zEiEubG9uZ2hhbmQudjEuV2F0Y2hTZXNzaW9uc1JlcXVlc3QaIi5sb25naGFuZC52MS5XYXRjaFNlc3Npb25zUmVzcG9uc2UiHoi1GAGC0+STAhQSEi92MS9zZXNzaW9uczp3YXRjaDABEoABCg1VcGRhdGVTZXNzaW9uEiEubG9uZ2hhbmQudjEuVXBkYXRlU2Vzc2lvblJlcXVlc3QaIi5sb25naGFuZC52MS5VcGRhdGVTZXNzaW9uUmVzcG9uc2UiKIi1GAKC0+STAh46ASoyGS92MS9zZXNzaW9ucy97c2Vzc2lvbl9pZH0SiwEKDkFyY2hpdmVTZXNzaW9uEiIubG9uZ2hhbmQudjEuQXJjaGl2ZVNlc3Npb25SZXF1ZXN0GiMubG9uZ2hhbmQudjEuQXJjaGl2ZVNlc3Npb25SZXNwb25zZSIwiLUYAoLT5JMCJjoBKiIhL3YxL3Nlc3Npb25zL3tzZXNzaW9uX2lkfTphcmNoaXZlEnwKCEFkZExhYmVsEhwubG9uZ2hhbmQudjEuQWRkTGFiZWxSZXF1ZXN0Gh0ubG9uZ2hhbmQudjEuQWRkTGFiZWxSZXNwb25zZSIziLUYAoLT5JMCKToBKiIkL3YxL3Nlc3Npb25zL3tzZXNzaW9uX2lkfS9sYWJlbHM6YWRkEogBCgtSZW1vdmVMYWJlbBIfLmxvbmdoYW5kLnYxLlJlbW92ZUxhYmVsUmVxdWVzdBogLmxvbmdoYW5kLnYxLlJlbW92ZUxhYmVsUmVzcG9uc2UiNoi1GAKC0+STAiw6ASoiJy92MS9zZXNzaW9ucy97c2Vzc2lvbl9pZH0vbGFiZWxzOnJlbW92ZRJ/CgtGb3JrU2Vzc2lvbhIfLmxvbmdoYW5kLnYxLkZvcmtTZXNzaW9uUmVxdWVzdBogLmxvbmdoYW5kLnYxLkZvcmtTZXNzaW9uUmVzcG9uc2UiLYi1GAKC0+STAiM6ASoiHi92MS9zZXNzaW9ucy97c2Vzc2lvbl9pZH06Zm9ya2IGcHJvdG8z", [file_google_api_annotations, file_google_protobuf_timestamp, file_longhand_v1_options]);

/**
 * One conversation: ordered messages, a policy, a model window.
 *
 * @generated from message longhand.v1.Session
 */
export type Session = Message<"longhand.v1.Session"> & {
  /**
   * The server's id: `ses_` and 32 hex digits.
   *
   * @generated from field: string session_id = 1;
   */
  sessionId: string;

  /**
   * The client's own id, unique in the tenant, up to 128 bytes; accepted wherever a session id is.
   *
   * @generated from field: optional string client_id = 2;
   */
  clientId?: string | undefined;

  /**
   * Title for people.
   *
   * @generated from field: string title = 3;
   */
  title: string;

  /**
   * State of the session: active or archived.
   *
   * @generated from field: longhand.v1.SessionState state = 4;
   */
  state: SessionState;

  /**
   * The parent session: set for a sub-agent's session.
   *
   * @generated from field: optional string parent_session_id = 5;
   */
  parentSessionId?: string | undefined;

  /**
   * The session this one was forked from.
   *
   * @generated from field: optional string source_session_id = 6;
   */
  sourceSessionId?: string | undefined;

  /**
   * The last revision that this session shares with the one it was forked from.
   *
   * @generated from field: optional int64 source_revision = 7;
   */
  sourceRevision?: bigint | undefined;

  /**
   * The preset that its policy started from, such as `opencode@seed`.
   *
   * @generated from field: string preset = 8;
   */
  preset: string;

  /**
   * The active policy in full. It is a snapshot: a later change of the preset does not change it. Empty in
   * ListSessions, unless it is asked for; GetSession has it.
   *
   * @generated from field: string policy_json = 9;
   */
  policyJson: string;

  /**
   * The model window, which alone decides when the session's views are compacted.
   *
   * @generated from field: longhand.v1.ModelWindow window = 10;
   */
  window?: ModelWindow | undefined;

  /**
   * The client's metadata: a JSON object, verbatim.
   *
   * @generated from field: optional string metadata_json = 11;
   */
  metadataJson?: string | undefined;

  /**
   * The newest revision.
   *
   * @generated from field: int64 revision = 12;
   */
  revision: bigint;

  /**
   * The newest revision that changed history, marks, policy or window; `expected_revision` is compared with it.
   *
   * @generated from field: int64 history_revision = 13;
   */
  historyRevision: bigint;

  /**
   * Number of messages that clients wrote to this session; excludes records and inherited messages.
   *
   * @generated from field: int64 message_count = 14;
   */
  messageCount: bigint;

  /**
   * Tokens of a request with the view at `context_revision`: trusted usage plus the policy's estimate of the messages
   * added after it; without trusted usage, the estimate plus the window's overhead. Unset before the first decision
   * about a session that is not in the daemon's memory.
   *
   * @generated from field: optional int64 context_tokens = 15;
   */
  contextTokens?: bigint | undefined;

  /**
   * The revision of the view that `context_tokens` counts: `revision` if the session is in memory or small, else the
   * revision of the newest decision about it. Set with `context_tokens`.
   *
   * @generated from field: optional int64 context_revision = 16;
   */
  contextRevision?: bigint | undefined;

  /**
   * The time at which the server created it.
   *
   * @generated from field: google.protobuf.Timestamp create_time = 17;
   */
  createTime?: Timestamp | undefined;

  /**
   * The time of its last change.
   *
   * @generated from field: google.protobuf.Timestamp update_time = 18;
   */
  updateTime?: Timestamp | undefined;

  /**
   * The guards that hold back its automatic compactions, as of the newest decision about it.
   *
   * @generated from field: longhand.v1.GuardState guard_state = 19;
   */
  guardState?: GuardState | undefined;

  /**
   * The tenant whose it is; empty for the default tenant. Never changes. Forks and sessions that work for another one have
   * the tenant of that one.
   *
   * @generated from field: string tenant = 20;
   */
  tenant: string;

  /**
   * The actor that created it: the caller's `longhand-actor` header; may be empty.
   *
   * @generated from field: string actor = 21;
   */
  actor: string;

  /**
   * Its labels, in the order of their bytes; at most 64.
   *
   * @generated from field: repeated string labels = 22;
   */
  labels: string[];

  /**
   * The usage of the replies that were written to it, without inherited ones, as their providers reported it.
   *
   * @generated from field: longhand.v1.UsageTotals usage_total = 23;
   */
  usageTotal?: UsageTotals | undefined;

  /**
   * The tokens at which each level of its policy is due under its window, lowest level first. Empty if the window is not
   * known or nothing is automatic, and in lists and snapshots.
   *
   * @generated from field: repeated longhand.v1.LevelThreshold thresholds = 24;
   */
  thresholds: LevelThreshold[];

  /**
   * The first time at which a message that clients wrote to it, without inherited ones and records, was written: by its
   * `origin_time`, or behind one that has it by its `create_time`; unset if none has an `origin_time`. Times of the import
   * are `create_time` and `update_time`.
   *
   * @generated from field: google.protobuf.Timestamp origin_start_time = 25;
   */
  originStartTime?: Timestamp | undefined;

  /**
   * The last one of these messages; set with `origin_start_time`.
   *
   * @generated from field: google.protobuf.Timestamp origin_end_time = 26;
   */
  originEndTime?: Timestamp | undefined;
};

/**
 * Describes the message longhand.v1.Session.
 * Use `create(SessionSchema)` to create a new message.
 */
export const SessionSchema: GenMessage<Session> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 0);

/**
 * The sum of the usage of a session's replies.
 *
 * @generated from message longhand.v1.UsageTotals
 */
export type UsageTotals = Message<"longhand.v1.UsageTotals"> & {
  /**
   * Tokens read that no cache served.
   *
   * @generated from field: int64 input_tokens = 1;
   */
  inputTokens: bigint;

  /**
   * Tokens written, without reasoning.
   *
   * @generated from field: int64 output_tokens = 2;
   */
  outputTokens: bigint;

  /**
   * Tokens of reasoning.
   *
   * @generated from field: int64 reasoning_tokens = 3;
   */
  reasoningTokens: bigint;

  /**
   * Tokens read from the providers' prompt caches.
   *
   * @generated from field: int64 cache_read_tokens = 4;
   */
  cacheReadTokens: bigint;

  /**
   * Tokens written to the providers' prompt caches.
   *
   * @generated from field: int64 cache_write_tokens = 5;
   */
  cacheWriteTokens: bigint;

  /**
   * The cost in millionths of a US dollar, of the replies whose cost was reported or could be computed.
   *
   * @generated from field: int64 cost_micro_usd = 6;
   */
  costMicroUsd: bigint;
};

/**
 * Describes the message longhand.v1.UsageTotals.
 * Use `create(UsageTotalsSchema)` to create a new message.
 */
export const UsageTotalsSchema: GenMessage<UsageTotals> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 1);

/**
 * Guards that hold back a session's automatic compactions, as of the newest decision about it. A new decision follows
 * within moments of anything that may end a guard. Compactions by hand, supplied summaries and overflow reports do not
 * wait for any guard.
 *
 * @generated from message longhand.v1.GuardState
 */
export type GuardState = Message<"longhand.v1.GuardState"> & {
  /**
   * Number of consecutive compactions that failed or freed nothing. A change of history, policy or window and a
   * compaction by hand reset it. At the policy's `guards.breaker_failures` the breaker opens.
   *
   * @generated from field: int32 failure_count = 1;
   */
  failureCount: number;

  /**
   * Number of user messages that automatic compactions still wait for; 0 if they do not wait.
   *
   * @generated from field: int32 hold_turn_count = 2;
   */
  holdTurnCount: number;

  /**
   * Reason why they wait for user messages.
   *
   * @generated from field: longhand.v1.HoldReason hold_reason = 3;
   */
  holdReason: HoldReason;

  /**
   * End of the cooldown after the newest automatic compaction; unset without a cooldown. A view that exceeds its window
   * does not wait for it.
   *
   * @generated from field: google.protobuf.Timestamp cooldown_end_time = 4;
   */
  cooldownEndTime?: Timestamp | undefined;

  /**
   * Tokens that no compaction can free, such as a system prompt, tool descriptions and pinned messages, once a view was
   * found to exceed its window because of what may not be removed. Unset if this was not found, or a view fits since.
   *
   * @generated from field: optional int64 overhead_tokens = 5;
   */
  overheadTokens?: bigint | undefined;
};

/**
 * Describes the message longhand.v1.GuardState.
 * Use `create(GuardStateSchema)` to create a new message.
 */
export const GuardStateSchema: GenMessage<GuardState> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 2);

/**
 * The token limits of a model.
 *
 * @generated from message longhand.v1.ModelWindow
 */
export type ModelWindow = Message<"longhand.v1.ModelWindow"> & {
  /**
   * The model's name, as its provider spells it, up to 128 bytes; may be empty.
   *
   * @generated from field: string model = 1;
   */
  model: string;

  /**
   * Limit on input and output together, in tokens. If it is 0 and no other limit on input is given, the daemon takes the
   * limits of the model from its table, by the model's name; a name that the table has not leaves the window unknown, and
   * no threshold then applies. Not negative, as all limits of a window: else INVALID_FIELD.
   *
   * @generated from field: int64 max_context_tokens = 2;
   */
  maxContextTokens: bigint;

  /**
   * A separate limit on input, in tokens.
   *
   * @generated from field: optional int64 max_input_tokens = 3;
   */
  maxInputTokens?: bigint | undefined;

  /**
   * Maximum output of one reply, in tokens: what its client asks for, which may be less than the model can write. It is
   * not subtracted from what a view may have; a policy's own reserve is at most a quarter of the window if this is unset
   * or 0.
   *
   * @generated from field: optional int64 max_output_tokens = 4;
   */
  maxOutputTokens?: bigint | undefined;

  /**
   * Tokens of every request besides the view: a system prompt that is not stored, tool descriptions. Every estimate of
   * a request adds them; reported usage includes them already.
   *
   * @generated from field: int64 overhead_tokens = 5;
   */
  overheadTokens: bigint;

  /**
   * Where the limits come from. Unspecified if none is known. Requests: ignored.
   *
   * @generated from field: longhand.v1.WindowSource source = 6;
   */
  source: WindowSource;
};

/**
 * Describes the message longhand.v1.ModelWindow.
 * Use `create(ModelWindowSchema)` to create a new message.
 */
export const ModelWindowSchema: GenMessage<ModelWindow> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 3);

/**
 * The threshold of one level of a policy, under a window.
 *
 * @generated from message longhand.v1.LevelThreshold
 */
export type LevelThreshold = Message<"longhand.v1.LevelThreshold"> & {
  /**
   * The level.
   *
   * @generated from field: longhand.v1.CompactionLevel level = 1;
   */
  level: CompactionLevel;

  /**
   * The smallest number of tokens of a request with the view at which it is due; at least 1.
   *
   * @generated from field: int64 due_tokens = 2;
   */
  dueTokens: bigint;

  /**
   * Why the window is too small for the level, in words with tokens: the policy's reserve leaves less than a twentieth of
   * it, or the level keeps as many tokens as make it due. Unset if neither is so.
   *
   * @generated from field: optional string unmet_message = 3;
   */
  unmetMessage?: string | undefined;
};

/**
 * Describes the message longhand.v1.LevelThreshold.
 * Use `create(LevelThresholdSchema)` to create a new message.
 */
export const LevelThresholdSchema: GenMessage<LevelThreshold> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 4);

/**
 * A request to create a session.
 *
 * @generated from message longhand.v1.CreateSessionRequest
 */
export type CreateSessionRequest = Message<"longhand.v1.CreateSessionRequest"> & {
  /**
   * The client's own id, unique in the tenant, up to 128 bytes. It must not have the form of a server's id (see
   * `NewMessage.client_id`).
   *
   * @generated from field: optional string client_id = 1;
   */
  clientId?: string | undefined;

  /**
   * Title for people, up to 512 bytes, without U+0000. No name, id or title of a request may have that character.
   *
   * @generated from field: string title = 2;
   */
  title: string;

  /**
   * The preset, with or without its version. Empty for the server's default for the model and the project; the project
   * is `project` in the metadata, else `cwd` in the metadata.
   *
   * @generated from field: string preset = 3;
   */
  preset: string;

  /**
   * A JSON object merged over the preset's policy, field by field; list items are addressed by index. Up to 64 KiB; empty
   * for none.
   *
   * @generated from field: string policy_override_json = 4;
   */
  policyOverrideJson: string;

  /**
   * A whole policy instead of a preset, in the form of `Preset.policy_json`, up to 64 KiB; empty for none.
   *
   * @generated from field: string policy_json = 5;
   */
  policyJson: string;

  /**
   * The model window, which alone decides when the session's views are compacted.
   *
   * @generated from field: longhand.v1.ModelWindow window = 6;
   */
  window?: ModelWindow | undefined;

  /**
   * A JSON object, kept verbatim, up to 64 KiB.
   *
   * @generated from field: optional string metadata_json = 7;
   */
  metadataJson?: string | undefined;

  /**
   * The parent session.
   *
   * @generated from field: optional string parent_session_id = 8;
   */
  parentSessionId?: string | undefined;

  /**
   * Refuses the request with SESSION_ERASED if the metadata name the source of a session of the tenant that was erased, for
   * whoever writes sessions again, such as an import. The source is an object `source` with texts `format`, `id` (both not
   * empty) and `branch`. A session that exists is found all the same.
   *
   * @generated from field: bool keep_erased = 9;
   */
  keepErased: boolean;
};

/**
 * Describes the message longhand.v1.CreateSessionRequest.
 * Use `create(CreateSessionRequestSchema)` to create a new message.
 */
export const CreateSessionRequestSchema: GenMessage<CreateSessionRequest> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 5);

/**
 * The created or existing session.
 *
 * @generated from message longhand.v1.CreateSessionResponse
 */
export type CreateSessionResponse = Message<"longhand.v1.CreateSessionResponse"> & {
  /**
   * The session.
   *
   * @generated from field: longhand.v1.Session session = 1;
   */
  session?: Session | undefined;

  /**
   * True if the session existed before this request.
   *
   * @generated from field: bool existed = 2;
   */
  existed: boolean;

  /**
   * Durability of the acknowledged write: fsynced, or safe from a crash of the process only.
   *
   * @generated from field: longhand.v1.Durability durability = 3;
   */
  durability: Durability;

  /**
   * What rules for secrets found in the request, in the order of its texts; nothing without rules.
   *
   * @generated from field: repeated longhand.v1.SecretFinding secret_findings = 4;
   */
  secretFindings: SecretFinding[];
};

/**
 * Describes the message longhand.v1.CreateSessionResponse.
 * Use `create(CreateSessionResponseSchema)` to create a new message.
 */
export const CreateSessionResponseSchema: GenMessage<CreateSessionResponse> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 6);

/**
 * A request for one session.
 *
 * @generated from message longhand.v1.GetSessionRequest
 */
export type GetSessionRequest = Message<"longhand.v1.GetSessionRequest"> & {
  /**
   * The session's id or client id.
   *
   * @generated from field: string session_id = 1;
   */
  sessionId: string;
};

/**
 * Describes the message longhand.v1.GetSessionRequest.
 * Use `create(GetSessionRequestSchema)` to create a new message.
 */
export const GetSessionRequestSchema: GenMessage<GetSessionRequest> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 7);

/**
 * One session.
 *
 * @generated from message longhand.v1.GetSessionResponse
 */
export type GetSessionResponse = Message<"longhand.v1.GetSessionResponse"> & {
  /**
   * The session.
   *
   * @generated from field: longhand.v1.Session session = 1;
   */
  session?: Session | undefined;

  /**
   * Reason why its view exceeds its window. Unset if it fits, and if the session is not in the daemon's memory and has
   * more than 256 KiB; GetView always has it.
   *
   * @generated from field: optional longhand.v1.OverWindow over_window = 2;
   */
  overWindow?: OverWindow | undefined;

  /**
   * What people typed in the messages that the active summary covers, verbatim and in order, as far as the policy lets it
   * follow the summary (`words_tokens`): a line each. Empty if the summary has none, or has it among its own lines, as that
   * of the built-in summarizer.
   *
   * @generated from field: repeated longhand.v1.SaidLine said_lines = 3;
   */
  saidLines: SaidLine[];

  /**
   * The messages whose words were struck out or kept (MarkWords), oldest first; the next compaction is the first to see a
   * new one.
   *
   * @generated from field: repeated longhand.v1.MarkedWords marked_words = 4;
   */
  markedWords: MarkedWords[];

  /**
   * The provider's own compaction that the view begins with. Unset without one, and if the session is not in the daemon's
   * memory and has more than 256 KiB; GetView always has it.
   *
   * @generated from field: longhand.v1.ProviderCompaction provider_compaction = 5;
   */
  providerCompaction?: ProviderCompaction | undefined;
};

/**
 * Describes the message longhand.v1.GetSessionResponse.
 * Use `create(GetSessionResponseSchema)` to create a new message.
 */
export const GetSessionResponseSchema: GenMessage<GetSessionResponse> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 8);

/**
 * A line of what people typed.
 *
 * @generated from message longhand.v1.SaidLine
 */
export type SaidLine = Message<"longhand.v1.SaidLine"> & {
  /**
   * The line, with quotation marks.
   *
   * @generated from field: string text = 1;
   */
  text: string;

  /**
   * The message that it is from; unset if its message is not known.
   *
   * @generated from field: optional string message_id = 2;
   */
  messageId?: string | undefined;
};

/**
 * Describes the message longhand.v1.SaidLine.
 * Use `create(SaidLineSchema)` to create a new message.
 */
export const SaidLineSchema: GenMessage<SaidLine> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 9);

/**
 * A message whose words were struck out or kept.
 *
 * @generated from message longhand.v1.MarkedWords
 */
export type MarkedWords = Message<"longhand.v1.MarkedWords"> & {
  /**
   * The message.
   *
   * @generated from field: string message_id = 1;
   */
  messageId: string;

  /**
   * What becomes of them.
   *
   * @generated from field: longhand.v1.WordsStance stance = 2;
   */
  stance: WordsStance;
};

/**
 * Describes the message longhand.v1.MarkedWords.
 * Use `create(MarkedWordsSchema)` to create a new message.
 */
export const MarkedWordsSchema: GenMessage<MarkedWords> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 10);

/**
 * A compaction that a provider made itself: Anthropic's block `compaction`, OpenAI's item `compaction` or object
 * `response.compaction`, kept as an opaque part. In a view for its provider the newest one goes first, as it came, and what
 * it stands for is not shown: all before it, but for instructions at the beginning, pinned messages, and messages behind the
 * view that its reply names. For any other provider the originals are shown, or a summary of Longhand's, and the block is
 * not. A view in a format is for the format's provider. Any other view, and every decision, is for the provider of the
 * window's model, or, if that is not known by the model's name, for the one that compacted the conversation last. A block
 * that failed (`content` is null) stands for nothing, and goes back as it came. An edit, a rewind or an erasure of what a
 * block stands for, and a summary of Longhand's that covers more, make the block void.
 *
 * @generated from message longhand.v1.ProviderCompaction
 */
export type ProviderCompaction = Message<"longhand.v1.ProviderCompaction"> & {
  /**
   * The message with the block.
   *
   * @generated from field: string message_id = 1;
   */
  messageId: string;

  /**
   * The block.
   *
   * @generated from field: string part_id = 2;
   */
  partId: string;

  /**
   * The provider: `anthropic` or `openai`.
   *
   * @generated from field: string provider = 3;
   */
  provider: string;

  /**
   * The messages that it stands for.
   *
   * @generated from field: repeated longhand.v1.RevisionRange covered_ranges = 4;
   */
  coveredRanges: RevisionRange[];
};

/**
 * Describes the message longhand.v1.ProviderCompaction.
 * Use `create(ProviderCompactionSchema)` to create a new message.
 */
export const ProviderCompactionSchema: GenMessage<ProviderCompaction> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 11);

/**
 * An inclusive range of revisions.
 *
 * @generated from message longhand.v1.RevisionRange
 */
export type RevisionRange = Message<"longhand.v1.RevisionRange"> & {
  /**
   * First revision in the range.
   *
   * @generated from field: int64 first_revision = 1;
   */
  firstRevision: bigint;

  /**
   * Last revision in the range.
   *
   * @generated from field: int64 last_revision = 2;
   */
  lastRevision: bigint;
};

/**
 * Describes the message longhand.v1.RevisionRange.
 * Use `create(RevisionRangeSchema)` to create a new message.
 */
export const RevisionRangeSchema: GenMessage<RevisionRange> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 12);

/**
 * Reason why a view exceeds its window.
 *
 * @generated from message longhand.v1.OverWindow
 */
export type OverWindow = Message<"longhand.v1.OverWindow"> & {
  /**
   * The reason.
   *
   * @generated from field: longhand.v1.OverWindowReason reason = 1;
   */
  reason: OverWindowReason;

  /**
   * The reason in words, with tokens, ids and the command that ends it.
   *
   * @generated from field: string message = 2;
   */
  message: string;

  /**
   * End of the wait: for people, if the reason is a confirmation; for the next attempt, if it is a retry.
   *
   * @generated from field: optional google.protobuf.Timestamp wait_end_time = 3;
   */
  waitEndTime?: Timestamp | undefined;
};

/**
 * Describes the message longhand.v1.OverWindow.
 * Use `create(OverWindowSchema)` to create a new message.
 */
export const OverWindowSchema: GenMessage<OverWindow> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 13);

/**
 * A request for a page of sessions.
 *
 * @generated from message longhand.v1.ListSessionsRequest
 */
export type ListSessionsRequest = Message<"longhand.v1.ListSessionsRequest"> & {
  /**
   * Maximum number of sessions; 0 for 50; values above 1000 count as 1000. Large sessions and policies can make a page
   * shorter.
   *
   * @generated from field: int32 page_size = 1;
   */
  pageSize: number;

  /**
   * The previous page's `next_page_token`; empty for the first page.
   *
   * @generated from field: string page_token = 2;
   */
  pageToken: string;

  /**
   * Restricts the list to children of this session.
   *
   * @generated from field: optional string parent_session_id = 3;
   */
  parentSessionId?: string | undefined;

  /**
   * Includes archived sessions.
   *
   * @generated from field: bool include_archived = 4;
   */
  includeArchived: boolean;

  /**
   * Further conditions.
   *
   * @generated from field: longhand.v1.SessionFilter filter = 5;
   */
  filter?: SessionFilter | undefined;

  /**
   * The order; newest first if unset.
   *
   * @generated from field: longhand.v1.SessionOrder order = 6;
   */
  order: SessionOrder;

  /**
   * What each session has; all but its policy if unset.
   *
   * @generated from field: longhand.v1.SessionDetail detail = 7;
   */
  detail: SessionDetail;

  /**
   * Includes, with each session, the token of a page that begins behind it.
   *
   * @generated from field: bool include_page_tokens = 8;
   */
  includePageTokens: boolean;
};

/**
 * Describes the message longhand.v1.ListSessionsRequest.
 * Use `create(ListSessionsRequestSchema)` to create a new message.
 */
export const ListSessionsRequestSchema: GenMessage<ListSessionsRequest> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 14);

/**
 * Conditions on sessions. All that are set must hold; those of strings and lists are set if they are not empty.
 *
 * @generated from message longhand.v1.SessionFilter
 */
export type SessionFilter = Message<"longhand.v1.SessionFilter"> & {
  /**
   * The session is this one, works for it or was forked from it, at any depth.
   *
   * @generated from field: optional string root_session_id = 1;
   */
  rootSessionId?: string | undefined;

  /**
   * Its metadata have `project` with this value. A fork without metadata of its own counts by those of the session that it
   * was forked from, here and in the next two fields.
   *
   * @generated from field: optional string project = 2;
   */
  project?: string | undefined;

  /**
   * Its metadata have `cwd` with this directory or one below it. Not empty; up to 4096 bytes.
   *
   * @generated from field: optional string directory = 3;
   */
  directory?: string | undefined;

  /**
   * Its metadata have these members at the top level: a name, or a name, `=` and a value, which is the text of a string,
   * or the JSON of a number, of a boolean or of null. A name with `=` in it cannot be asked for. At most 16, of up to 1024
   * bytes each.
   *
   * @generated from field: repeated string metadata_terms = 4;
   */
  metadataTerms: string[];

  /**
   * It has all of these labels; at most 16.
   *
   * @generated from field: repeated string labels = 5;
   */
  labels: string[];

  /**
   * This actor created it. Empty for no actor.
   *
   * @generated from field: optional string actor = 6;
   */
  actor?: string | undefined;

  /**
   * Its state. An archived one is found by it without `include_archived`.
   *
   * @generated from field: longhand.v1.SessionState state = 7;
   */
  state: SessionState;

  /**
   * The beginning of its title, byte for byte; up to 512 bytes.
   *
   * @generated from field: string title_prefix = 8;
   */
  titlePrefix: string;

  /**
   * The beginning of its client id, byte for byte; up to 128 bytes.
   *
   * @generated from field: string client_id_prefix = 9;
   */
  clientIdPrefix: string;

  /**
   * It was created at this time or later.
   *
   * @generated from field: google.protobuf.Timestamp min_create_time = 10;
   */
  minCreateTime?: Timestamp | undefined;

  /**
   * It was created before this time.
   *
   * @generated from field: google.protobuf.Timestamp max_create_time = 11;
   */
  maxCreateTime?: Timestamp | undefined;

  /**
   * It changed last at this time or later.
   *
   * @generated from field: google.protobuf.Timestamp min_update_time = 12;
   */
  minUpdateTime?: Timestamp | undefined;

  /**
   * It changed last before this time.
   *
   * @generated from field: google.protobuf.Timestamp max_update_time = 13;
   */
  maxUpdateTime?: Timestamp | undefined;

  /**
   * Its last message was written at this time or later: by `origin_end_time`, or without one by `update_time`.
   *
   * @generated from field: google.protobuf.Timestamp min_origin_time = 14;
   */
  minOriginTime?: Timestamp | undefined;

  /**
   * Its first message was written before this time: by `origin_start_time`, or without one by `create_time`.
   *
   * @generated from field: google.protobuf.Timestamp max_origin_time = 15;
   */
  maxOriginTime?: Timestamp | undefined;
};

/**
 * Describes the message longhand.v1.SessionFilter.
 * Use `create(SessionFilterSchema)` to create a new message.
 */
export const SessionFilterSchema: GenMessage<SessionFilter> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 15);

/**
 * A page of sessions.
 *
 * @generated from message longhand.v1.ListSessionsResponse
 */
export type ListSessionsResponse = Message<"longhand.v1.ListSessionsResponse"> & {
  /**
   * The sessions, in order.
   *
   * @generated from field: repeated longhand.v1.Session sessions = 1;
   */
  sessions: Session[];

  /**
   * Token of the next page; empty on the last page.
   *
   * @generated from field: string next_page_token = 2;
   */
  nextPageToken: string;

  /**
   * For each session the token of a page that begins behind it, in the same order; empty unless they were asked for.
   *
   * @generated from field: repeated string page_tokens = 3;
   */
  pageTokens: string[];
};

/**
 * Describes the message longhand.v1.ListSessionsResponse.
 * Use `create(ListSessionsResponseSchema)` to create a new message.
 */
export const ListSessionsResponseSchema: GenMessage<ListSessionsResponse> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 16);

/**
 * A request to follow a list of sessions.
 *
 * @generated from message longhand.v1.WatchSessionsRequest
 */
export type WatchSessionsRequest = Message<"longhand.v1.WatchSessionsRequest"> & {
  /**
   * Only children of this session.
   *
   * @generated from field: optional string parent_session_id = 1;
   */
  parentSessionId?: string | undefined;

  /**
   * Includes archived sessions.
   *
   * @generated from field: bool include_archived = 2;
   */
  includeArchived: boolean;

  /**
   * Further conditions. Without `max_update_time`, a session that changes only in what no condition is about stays in the
   * list.
   *
   * @generated from field: longhand.v1.SessionFilter filter = 3;
   */
  filter?: SessionFilter | undefined;

  /**
   * Only changes after the frame with this cursor, of a stream with the same conditions; a snapshot first if empty.
   *
   * @generated from field: string after_cursor = 4;
   */
  afterCursor: string;
};

/**
 * Describes the message longhand.v1.WatchSessionsRequest.
 * Use `create(WatchSessionsRequestSchema)` to create a new message.
 */
export const WatchSessionsRequestSchema: GenMessage<WatchSessionsRequest> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 17);

/**
 * A frame of the stream.
 *
 * @generated from message longhand.v1.WatchSessionsResponse
 */
export type WatchSessionsResponse = Message<"longhand.v1.WatchSessionsResponse"> & {
  /**
   * Position after this frame, to resume from; empty within the snapshot, which is requested again as a whole.
   *
   * @generated from field: string cursor = 1;
   */
  cursor: string;

  /**
   * The frame.
   *
   * @generated from oneof longhand.v1.WatchSessionsResponse.frame
   */
  frame: {
    /**
     * Sessions of the snapshot.
     *
     * @generated from field: longhand.v1.ListedSessions snapshot_page = 2;
     */
    value: ListedSessions;
    case: "snapshotPage";
  } | {
    /**
     * The snapshot is complete.
     *
     * @generated from field: longhand.v1.SessionSnapshotEnd snapshot_end = 3;
     */
    value: SessionSnapshotEnd;
    case: "snapshotEnd";
  } | {
    /**
     * Changes of the list.
     *
     * @generated from field: longhand.v1.SessionListChanges change = 4;
     */
    value: SessionListChanges;
    case: "change";
  } | {
    /**
     * Nothing changed up to the cursor. Sent every 10 seconds.
     *
     * @generated from field: longhand.v1.SessionListProgress progress = 5;
     */
    value: SessionListProgress;
    case: "progress";
  } | { case: undefined; value?: undefined };
};

/**
 * Describes the message longhand.v1.WatchSessionsResponse.
 * Use `create(WatchSessionsResponseSchema)` to create a new message.
 */
export const WatchSessionsResponseSchema: GenMessage<WatchSessionsResponse> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 18);

/**
 * Sessions of a snapshot, newest first.
 *
 * @generated from message longhand.v1.ListedSessions
 */
export type ListedSessions = Message<"longhand.v1.ListedSessions"> & {
  /**
   * The sessions, without their policies.
   *
   * @generated from field: repeated longhand.v1.Session sessions = 1;
   */
  sessions: Session[];
};

/**
 * Describes the message longhand.v1.ListedSessions.
 * Use `create(ListedSessionsSchema)` to create a new message.
 */
export const ListedSessionsSchema: GenMessage<ListedSessions> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 19);

/**
 * A snapshot is complete.
 *
 * @generated from message longhand.v1.SessionSnapshotEnd
 */
export type SessionSnapshotEnd = Message<"longhand.v1.SessionSnapshotEnd"> & {
};

/**
 * Describes the message longhand.v1.SessionSnapshotEnd.
 * Use `create(SessionSnapshotEndSchema)` to create a new message.
 */
export const SessionSnapshotEndSchema: GenMessage<SessionSnapshotEnd> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 20);

/**
 * Changes of a list of sessions.
 *
 * @generated from message longhand.v1.SessionListChanges
 */
export type SessionListChanges = Message<"longhand.v1.SessionListChanges"> & {
  /**
   * Sessions of the list that came or changed, as they are now, without their policies.
   *
   * @generated from field: repeated longhand.v1.Session changed_sessions = 1;
   */
  changedSessions: Session[];

  /**
   * Sessions that are not in the list any more. A client ignores those that it does not have.
   *
   * @generated from field: repeated string removed_session_ids = 2;
   */
  removedSessionIds: string[];
};

/**
 * Describes the message longhand.v1.SessionListChanges.
 * Use `create(SessionListChangesSchema)` to create a new message.
 */
export const SessionListChangesSchema: GenMessage<SessionListChanges> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 21);

/**
 * Nothing changed in a list of sessions.
 *
 * @generated from message longhand.v1.SessionListProgress
 */
export type SessionListProgress = Message<"longhand.v1.SessionListProgress"> & {
};

/**
 * Describes the message longhand.v1.SessionListProgress.
 * Use `create(SessionListProgressSchema)` to create a new message.
 */
export const SessionListProgressSchema: GenMessage<SessionListProgress> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 22);

/**
 * A request to change a session.
 *
 * @generated from message longhand.v1.UpdateSessionRequest
 */
export type UpdateSessionRequest = Message<"longhand.v1.UpdateSessionRequest"> & {
  /**
   * The session's id or client id.
   *
   * @generated from field: string session_id = 1;
   */
  sessionId: string;

  /**
   * The new title, up to 512 bytes, without U+0000.
   *
   * @generated from field: optional string title = 2;
   */
  title?: string | undefined;

  /**
   * The new metadata: a JSON object, kept verbatim, up to 64 KiB.
   *
   * @generated from field: optional string metadata_json = 3;
   */
  metadataJson?: string | undefined;

  /**
   * The new model window. Usage reported under the old window no longer counts.
   *
   * @generated from field: longhand.v1.ModelWindow window = 4;
   */
  window?: ModelWindow | undefined;

  /**
   * The new preset, which replaces the whole policy.
   *
   * @generated from field: optional string preset = 5;
   */
  preset?: string | undefined;

  /**
   * A JSON object merged over the active policy, or over the new preset; up to 64 KiB.
   *
   * @generated from field: optional string policy_override_json = 6;
   */
  policyOverrideJson?: string | undefined;

  /**
   * A whole policy instead of a preset, up to 64 KiB.
   *
   * @generated from field: optional string policy_json = 7;
   */
  policyJson?: string | undefined;

  /**
   * Refuses the request if history, marks, policy or window changed after this revision.
   *
   * @generated from field: optional int64 expected_revision = 8;
   */
  expectedRevision?: bigint | undefined;

  /**
   * Makes the request idempotent; up to 128 bytes, kept for ever per session.
   *
   * @generated from field: string request_id = 9;
   */
  requestId: string;
};

/**
 * Describes the message longhand.v1.UpdateSessionRequest.
 * Use `create(UpdateSessionRequestSchema)` to create a new message.
 */
export const UpdateSessionRequestSchema: GenMessage<UpdateSessionRequest> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 23);

/**
 * The session after the change.
 *
 * @generated from message longhand.v1.UpdateSessionResponse
 */
export type UpdateSessionResponse = Message<"longhand.v1.UpdateSessionResponse"> & {
  /**
   * The session when the answer is made. Other writes may be included; a repeated request can be answered much later.
   *
   * @generated from field: longhand.v1.Session session = 1;
   */
  session?: Session | undefined;

  /**
   * Its revision after the change.
   *
   * @generated from field: int64 revision = 2;
   */
  revision: bigint;

  /**
   * The store's sequence number of the change.
   *
   * @generated from field: int64 seq = 3;
   */
  seq: bigint;

  /**
   * Durability of the acknowledged write: fsynced, or safe from a crash of the process only.
   *
   * @generated from field: longhand.v1.Durability durability = 4;
   */
  durability: Durability;

  /**
   * What rules for secrets found in the request, in the order of its texts; nothing without rules.
   *
   * @generated from field: repeated longhand.v1.SecretFinding secret_findings = 5;
   */
  secretFindings: SecretFinding[];
};

/**
 * Describes the message longhand.v1.UpdateSessionResponse.
 * Use `create(UpdateSessionResponseSchema)` to create a new message.
 */
export const UpdateSessionResponseSchema: GenMessage<UpdateSessionResponse> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 24);

/**
 * A request to archive or restore a session.
 *
 * @generated from message longhand.v1.ArchiveSessionRequest
 */
export type ArchiveSessionRequest = Message<"longhand.v1.ArchiveSessionRequest"> & {
  /**
   * The session's id or client id.
   *
   * @generated from field: string session_id = 1;
   */
  sessionId: string;

  /**
   * Restores the session instead of archiving it.
   *
   * @generated from field: bool restore = 2;
   */
  restore: boolean;

  /**
   * Makes the request idempotent.
   *
   * @generated from field: string request_id = 3;
   */
  requestId: string;
};

/**
 * Describes the message longhand.v1.ArchiveSessionRequest.
 * Use `create(ArchiveSessionRequestSchema)` to create a new message.
 */
export const ArchiveSessionRequestSchema: GenMessage<ArchiveSessionRequest> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 25);

/**
 * The session after the change.
 *
 * @generated from message longhand.v1.ArchiveSessionResponse
 */
export type ArchiveSessionResponse = Message<"longhand.v1.ArchiveSessionResponse"> & {
  /**
   * The session when the answer is made; its state may have changed again by then.
   *
   * @generated from field: longhand.v1.Session session = 1;
   */
  session?: Session | undefined;

  /**
   * Its revision after the change.
   *
   * @generated from field: int64 revision = 2;
   */
  revision: bigint;

  /**
   * The store's sequence number of the change.
   *
   * @generated from field: int64 seq = 3;
   */
  seq: bigint;

  /**
   * Durability of the acknowledged write: fsynced, or safe from a crash of the process only.
   *
   * @generated from field: longhand.v1.Durability durability = 4;
   */
  durability: Durability;
};

/**
 * Describes the message longhand.v1.ArchiveSessionResponse.
 * Use `create(ArchiveSessionResponseSchema)` to create a new message.
 */
export const ArchiveSessionResponseSchema: GenMessage<ArchiveSessionResponse> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 26);

/**
 * A request to add a label to a session.
 *
 * @generated from message longhand.v1.AddLabelRequest
 */
export type AddLabelRequest = Message<"longhand.v1.AddLabelRequest"> & {
  /**
   * The session's id or client id.
   *
   * @generated from field: string session_id = 1;
   */
  sessionId: string;

  /**
   * The label: 1 to 64 bytes without white space, commas and control characters.
   *
   * @generated from field: string label = 2;
   */
  label: string;

  /**
   * Makes the request idempotent.
   *
   * @generated from field: string request_id = 3;
   */
  requestId: string;
};

/**
 * Describes the message longhand.v1.AddLabelRequest.
 * Use `create(AddLabelRequestSchema)` to create a new message.
 */
export const AddLabelRequestSchema: GenMessage<AddLabelRequest> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 27);

/**
 * The session after the change.
 *
 * @generated from message longhand.v1.AddLabelResponse
 */
export type AddLabelResponse = Message<"longhand.v1.AddLabelResponse"> & {
  /**
   * The session when the answer is made; its labels may have changed again by then.
   *
   * @generated from field: longhand.v1.Session session = 1;
   */
  session?: Session | undefined;

  /**
   * Its revision after the change.
   *
   * @generated from field: int64 revision = 2;
   */
  revision: bigint;

  /**
   * The store's sequence number of the change, or of the newest one if the session had the label.
   *
   * @generated from field: int64 seq = 3;
   */
  seq: bigint;

  /**
   * Durability of the acknowledged write: fsynced, or safe from a crash of the process only.
   *
   * @generated from field: longhand.v1.Durability durability = 4;
   */
  durability: Durability;
};

/**
 * Describes the message longhand.v1.AddLabelResponse.
 * Use `create(AddLabelResponseSchema)` to create a new message.
 */
export const AddLabelResponseSchema: GenMessage<AddLabelResponse> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 28);

/**
 * A request to remove a label from a session.
 *
 * @generated from message longhand.v1.RemoveLabelRequest
 */
export type RemoveLabelRequest = Message<"longhand.v1.RemoveLabelRequest"> & {
  /**
   * The session's id or client id.
   *
   * @generated from field: string session_id = 1;
   */
  sessionId: string;

  /**
   * The label, as in AddLabelRequest.
   *
   * @generated from field: string label = 2;
   */
  label: string;

  /**
   * Makes the request idempotent.
   *
   * @generated from field: string request_id = 3;
   */
  requestId: string;
};

/**
 * Describes the message longhand.v1.RemoveLabelRequest.
 * Use `create(RemoveLabelRequestSchema)` to create a new message.
 */
export const RemoveLabelRequestSchema: GenMessage<RemoveLabelRequest> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 29);

/**
 * The session after the change.
 *
 * @generated from message longhand.v1.RemoveLabelResponse
 */
export type RemoveLabelResponse = Message<"longhand.v1.RemoveLabelResponse"> & {
  /**
   * The session when the answer is made; its labels may have changed again by then.
   *
   * @generated from field: longhand.v1.Session session = 1;
   */
  session?: Session | undefined;

  /**
   * Its revision after the change.
   *
   * @generated from field: int64 revision = 2;
   */
  revision: bigint;

  /**
   * The store's sequence number of the change, or of the newest one if the session had no such label.
   *
   * @generated from field: int64 seq = 3;
   */
  seq: bigint;

  /**
   * Durability of the acknowledged write: fsynced, or safe from a crash of the process only.
   *
   * @generated from field: longhand.v1.Durability durability = 4;
   */
  durability: Durability;
};

/**
 * Describes the message longhand.v1.RemoveLabelResponse.
 * Use `create(RemoveLabelResponseSchema)` to create a new message.
 */
export const RemoveLabelResponseSchema: GenMessage<RemoveLabelResponse> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 30);

/**
 * A request to fork a session.
 *
 * @generated from message longhand.v1.ForkSessionRequest
 */
export type ForkSessionRequest = Message<"longhand.v1.ForkSessionRequest"> & {
  /**
   * The session to fork: its id or client id.
   *
   * @generated from field: string session_id = 1;
   */
  sessionId: string;

  /**
   * The point at which the fork begins; the newest revision if unset.
   *
   * @generated from oneof longhand.v1.ForkSessionRequest.point
   */
  point: {
    /**
     * Forks after this sealed message, named by its id, its client id or the id of one of its parts. The fork's view is
     * the current view up to that message, including edits, replays and compactions. The fork shares the history up to
     * the first revision that contains all of these. Later messages within that shared history are left out, and no undo
     * brings them back. For a message that a rewind left out, the view immediately before that rewind is used.
     *
     * @generated from field: string message_id = 2;
     */
    value: string;
    case: "messageId";
  } | {
    /**
     * Forks at this revision, with everything as it was then.
     *
     * @generated from field: int64 as_of_revision = 3;
     */
    value: bigint;
    case: "asOfRevision";
  } | { case: undefined; value?: undefined };

  /**
   * The client's own id for the fork, as in CreateSessionRequest.
   *
   * @generated from field: optional string client_id = 4;
   */
  clientId?: string | undefined;

  /**
   * The fork's title, up to 512 bytes, without U+0000; empty for the original's title.
   *
   * @generated from field: string title = 5;
   */
  title: string;
};

/**
 * Describes the message longhand.v1.ForkSessionRequest.
 * Use `create(ForkSessionRequestSchema)` to create a new message.
 */
export const ForkSessionRequestSchema: GenMessage<ForkSessionRequest> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 31);

/**
 * The created or existing fork.
 *
 * @generated from message longhand.v1.ForkSessionResponse
 */
export type ForkSessionResponse = Message<"longhand.v1.ForkSessionResponse"> & {
  /**
   * The fork.
   *
   * @generated from field: longhand.v1.Session session = 1;
   */
  session?: Session | undefined;

  /**
   * True if the fork existed before this request.
   *
   * @generated from field: bool existed = 2;
   */
  existed: boolean;

  /**
   * Durability of the acknowledged write: fsynced, or safe from a crash of the process only.
   *
   * @generated from field: longhand.v1.Durability durability = 3;
   */
  durability: Durability;

  /**
   * What rules for secrets found in the request, in the order of its texts; nothing without rules.
   *
   * @generated from field: repeated longhand.v1.SecretFinding secret_findings = 4;
   */
  secretFindings: SecretFinding[];
};

/**
 * Describes the message longhand.v1.ForkSessionResponse.
 * Use `create(ForkSessionResponseSchema)` to create a new message.
 */
export const ForkSessionResponseSchema: GenMessage<ForkSessionResponse> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 32);

/**
 * Secrets that a rule of the operator found in a text of a request (docs/security.md). It never has the secret.
 *
 * @generated from message longhand.v1.SecretFinding
 */
export type SecretFinding = Message<"longhand.v1.SecretFinding"> & {
  /**
   * The text, as errors name fields, such as `messages[0].parts[1].tool_call.input_json`. For text of a draft, the field
   * that brought the end of the secret.
   *
   * @generated from field: string field = 1;
   */
  field: string;

  /**
   * The rule's name.
   *
   * @generated from field: string rule = 2;
   */
  rule: string;

  /**
   * What happened to them.
   *
   * @generated from field: longhand.v1.SecretAction action = 3;
   */
  action: SecretAction;

  /**
   * Their number in the text.
   *
   * @generated from field: int32 found_count = 4;
   */
  foundCount: number;
};

/**
 * Describes the message longhand.v1.SecretFinding.
 * Use `create(SecretFindingSchema)` to create a new message.
 */
export const SecretFindingSchema: GenMessage<SecretFinding> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 33);

/**
 * A rule for secrets with its use.
 *
 * @generated from message longhand.v1.SecretRule
 */
export type SecretRule = Message<"longhand.v1.SecretRule"> & {
  /**
   * The rule's name.
   *
   * @generated from field: string rule = 1;
   */
  rule: string;

  /**
   * What happens to what it finds.
   *
   * @generated from field: longhand.v1.SecretAction action = 2;
   */
  action: SecretAction;

  /**
   * Secrets that it found since the start of the daemon, in requests that were sent again too; for a rule that refuses,
   * the requests and pieces of drafts that it refused.
   *
   * @generated from field: int64 found_count = 3;
   */
  foundCount: bigint;
};

/**
 * Describes the message longhand.v1.SecretRule.
 * Use `create(SecretRuleSchema)` to create a new message.
 */
export const SecretRuleSchema: GenMessage<SecretRule> = /*@__PURE__*/
  messageDesc(file_longhand_v1_session, 34);

/**
 * Reason why automatic compactions wait for user messages. New values may appear.
 *
 * @generated from enum longhand.v1.HoldReason
 */
export enum HoldReason {
  /**
   * Not given.
   *
   * @generated from enum value: HOLD_REASON_UNSPECIFIED = 0;
   */
  UNSPECIFIED = 0,

  /**
   * They do not wait.
   *
   * @generated from enum value: HOLD_REASON_NONE = 1;
   */
  NONE = 1,

  /**
   * The breaker opened. Growth of the view by a tenth of its window ends the wait too.
   *
   * @generated from enum value: HOLD_REASON_BREAKER = 2;
   */
  BREAKER = 2,

  /**
   * A change was undone. A redo of every undone change ends the wait too.
   *
   * @generated from enum value: HOLD_REASON_UNDO = 3;
   */
  UNDO = 3,
}

/**
 * Describes the enum longhand.v1.HoldReason.
 */
export const HoldReasonSchema: GenEnum<HoldReason> = /*@__PURE__*/
  enumDesc(file_longhand_v1_session, 0);

/**
 * State of a session. New values may appear.
 *
 * @generated from enum longhand.v1.SessionState
 */
export enum SessionState {
  /**
   * Not given.
   *
   * @generated from enum value: SESSION_STATE_UNSPECIFIED = 0;
   */
  UNSPECIFIED = 0,

  /**
   * The session accepts writes.
   *
   * @generated from enum value: SESSION_STATE_ACTIVE = 1;
   */
  ACTIVE = 1,

  /**
   * The session can be read and forked, not written.
   *
   * @generated from enum value: SESSION_STATE_ARCHIVED = 2;
   */
  ARCHIVED = 2,

  /**
   * Erased: it has no content any more. Whatever would write to it, fork it or restore it is refused with SESSION_ERASED.
   *
   * @generated from enum value: SESSION_STATE_ERASED = 3;
   */
  ERASED = 3,
}

/**
 * Describes the enum longhand.v1.SessionState.
 */
export const SessionStateSchema: GenEnum<SessionState> = /*@__PURE__*/
  enumDesc(file_longhand_v1_session, 1);

/**
 * Where the limits of a window come from. New values may appear.
 *
 * @generated from enum longhand.v1.WindowSource
 */
export enum WindowSource {
  /**
   * No limit is known: nothing is compacted.
   *
   * @generated from enum value: WINDOW_SOURCE_UNSPECIFIED = 0;
   */
  UNSPECIFIED = 0,

  /**
   * A client named them.
   *
   * @generated from enum value: WINDOW_SOURCE_CLIENT = 1;
   */
  CLIENT = 1,

  /**
   * The daemon's table of models, by the model's name.
   *
   * @generated from enum value: WINDOW_SOURCE_MODELS = 2;
   */
  MODELS = 2,

  /**
   * A provider named its limit when it refused a request (ReportOverflow).
   *
   * @generated from enum value: WINDOW_SOURCE_PROVIDER_ERROR = 3;
   */
  PROVIDER_ERROR = 3,
}

/**
 * Describes the enum longhand.v1.WindowSource.
 */
export const WindowSourceSchema: GenEnum<WindowSource> = /*@__PURE__*/
  enumDesc(file_longhand_v1_session, 2);

/**
 * A level of the policy. New values may appear.
 *
 * @generated from enum longhand.v1.CompactionLevel
 */
export enum CompactionLevel {
  /**
   * No level: maintenance. In a request: the default level for the kind.
   *
   * @generated from enum value: COMPACTION_LEVEL_UNSPECIFIED = 0;
   */
  UNSPECIFIED = 0,

  /**
   * Old outputs are cleared.
   *
   * @generated from enum value: COMPACTION_LEVEL_MICRO = 1;
   */
  MICRO = 1,

  /**
   * The ordinary compaction.
   *
   * @generated from enum value: COMPACTION_LEVEL_AUTO = 2;
   */
  AUTO = 2,

  /**
   * The thorough compaction.
   *
   * @generated from enum value: COMPACTION_LEVEL_DEEP = 3;
   */
  DEEP = 3,
}

/**
 * Describes the enum longhand.v1.CompactionLevel.
 */
export const CompactionLevelSchema: GenEnum<CompactionLevel> = /*@__PURE__*/
  enumDesc(file_longhand_v1_session, 3);

/**
 * What becomes of a message's words beside the summaries that cover it. New values may appear.
 *
 * @generated from enum longhand.v1.WordsStance
 */
export enum WordsStance {
  /**
   * Not given.
   *
   * @generated from enum value: WORDS_STANCE_UNSPECIFIED = 0;
   */
  UNSPECIFIED = 0,

  /**
   * The summarizer decides, as it does for every message.
   *
   * @generated from enum value: WORDS_STANCE_OPEN = 1;
   */
  OPEN = 1,

  /**
   * They are left out.
   *
   * @generated from enum value: WORDS_STANCE_STRUCK = 2;
   */
  STRUCK = 2,

  /**
   * They come first, also if the summarizer would leave them out.
   *
   * @generated from enum value: WORDS_STANCE_KEPT = 3;
   */
  KEPT = 3,
}

/**
 * Describes the enum longhand.v1.WordsStance.
 */
export const WordsStanceSchema: GenEnum<WordsStance> = /*@__PURE__*/
  enumDesc(file_longhand_v1_session, 4);

/**
 * Reason why a view exceeds its window. New values may appear.
 *
 * @generated from enum longhand.v1.OverWindowReason
 */
export enum OverWindowReason {
  /**
   * Not given.
   *
   * @generated from enum value: OVER_WINDOW_REASON_UNSPECIFIED = 0;
   */
  UNSPECIFIED = 0,

  /**
   * A decision or a compaction is pending.
   *
   * @generated from enum value: OVER_WINDOW_REASON_PENDING = 1;
   */
  PENDING = 1,

  /**
   * A compaction waits until people confirm it.
   *
   * @generated from enum value: OVER_WINDOW_REASON_CONFIRMATION = 2;
   */
  CONFIRMATION = 2,

  /**
   * A compaction waits for another attempt, since its summarizer or the store failed.
   *
   * @generated from enum value: OVER_WINDOW_REASON_RETRY = 3;
   */
  RETRY = 3,

  /**
   * The policy starts no compaction by itself.
   *
   * @generated from enum value: OVER_WINDOW_REASON_AUTOMATIC_OFF = 4;
   */
  AUTOMATIC_OFF = 4,

  /**
   * An undo holds automatic compactions back until the next user message.
   *
   * @generated from enum value: OVER_WINDOW_REASON_UNDO_HOLD = 5;
   */
  UNDO_HOLD = 5,

  /**
   * What no compaction may remove exceeds the window: overhead, system messages, pins, the newest user message, open
   * messages and running calls. The message has the tokens of each.
   *
   * @generated from enum value: OVER_WINDOW_REASON_FIXED_CONTENT = 6;
   */
  FIXED_CONTENT = 6,

  /**
   * The last resort failed, and is tried again at the next user message or when the view has grown.
   *
   * @generated from enum value: OVER_WINDOW_REASON_LAST_RESORT_FAILED = 7;
   */
  LAST_RESORT_FAILED = 7,

  /**
   * The view fits the session's window; the window that the call names is smaller, or the call's format is for another
   * provider than the one that compacted the conversation itself (ProviderCompaction), and has the originals.
   *
   * @generated from enum value: OVER_WINDOW_REASON_OTHER_WINDOW = 8;
   */
  OTHER_WINDOW = 8,
}

/**
 * Describes the enum longhand.v1.OverWindowReason.
 */
export const OverWindowReasonSchema: GenEnum<OverWindowReason> = /*@__PURE__*/
  enumDesc(file_longhand_v1_session, 5);

/**
 * Order of a list of sessions. New values may appear.
 *
 * @generated from enum longhand.v1.SessionOrder
 */
export enum SessionOrder {
  /**
   * Not given.
   *
   * @generated from enum value: SESSION_ORDER_UNSPECIFIED = 0;
   */
  UNSPECIFIED = 0,

  /**
   * By creation, the newest first.
   *
   * @generated from enum value: SESSION_ORDER_NEWEST_FIRST = 1;
   */
  NEWEST_FIRST = 1,

  /**
   * By creation, the oldest first.
   *
   * @generated from enum value: SESSION_ORDER_OLDEST_FIRST = 2;
   */
  OLDEST_FIRST = 2,

  /**
   * By last change, the one that changed last first.
   *
   * @generated from enum value: SESSION_ORDER_LAST_CHANGED_FIRST = 3;
   */
  LAST_CHANGED_FIRST = 3,

  /**
   * By last change, the one that changed last at the end.
   *
   * @generated from enum value: SESSION_ORDER_LAST_CHANGED_LAST = 4;
   */
  LAST_CHANGED_LAST = 4,
}

/**
 * Describes the enum longhand.v1.SessionOrder.
 */
export const SessionOrderSchema: GenEnum<SessionOrder> = /*@__PURE__*/
  enumDesc(file_longhand_v1_session, 6);

/**
 * What the sessions of a list have. New values may appear.
 *
 * @generated from enum longhand.v1.SessionDetail
 */
export enum SessionDetail {
  /**
   * Not given.
   *
   * @generated from enum value: SESSION_DETAIL_UNSPECIFIED = 0;
   */
  UNSPECIFIED = 0,

  /**
   * Everything but their policies.
   *
   * @generated from enum value: SESSION_DETAIL_BASIC = 1;
   */
  BASIC = 1,

  /**
   * Everything.
   *
   * @generated from enum value: SESSION_DETAIL_FULL = 2;
   */
  FULL = 2,
}

/**
 * Describes the enum longhand.v1.SessionDetail.
 */
export const SessionDetailSchema: GenEnum<SessionDetail> = /*@__PURE__*/
  enumDesc(file_longhand_v1_session, 7);

/**
 * Failures that an acknowledged write survives. New values may appear.
 *
 * @generated from enum longhand.v1.Durability
 */
export enum Durability {
  /**
   * Not given.
   *
   * @generated from enum value: DURABILITY_UNSPECIFIED = 0;
   */
  UNSPECIFIED = 0,

  /**
   * A crash of the machine: the write is fsynced.
   *
   * @generated from enum value: DURABILITY_FULL = 1;
   */
  FULL = 1,

  /**
   * A crash of the daemon only.
   *
   * @generated from enum value: DURABILITY_PROCESS_CRASH = 2;
   */
  PROCESS_CRASH = 2,
}

/**
 * Describes the enum longhand.v1.Durability.
 */
export const DurabilitySchema: GenEnum<Durability> = /*@__PURE__*/
  enumDesc(file_longhand_v1_session, 8);

/**
 * What happens to secrets that a rule finds. New values may appear.
 *
 * @generated from enum longhand.v1.SecretAction
 */
export enum SecretAction {
  /**
   * Not used.
   *
   * @generated from enum value: SECRET_ACTION_UNSPECIFIED = 0;
   */
  UNSPECIFIED = 0,

  /**
   * They are stored.
   *
   * @generated from enum value: SECRET_ACTION_WARN = 1;
   */
  WARN = 1,

  /**
   * A placeholder is stored in place of each: `[secret:RULE:HASH]`, with a hash that only this store can compute. Equal
   * secrets have equal ones.
   *
   * @generated from enum value: SECRET_ACTION_REDACT = 2;
   */
  REDACT = 2,

  /**
   * The request is refused: SECRET_REFUSED. No answer has it. Text of a draft that is refused takes the whole draft with it:
   * it has no text any more, takes none, and becomes no part. A secret that a draft acknowledged whole, before it could be
   * known for one, is redacted.
   *
   * @generated from enum value: SECRET_ACTION_REFUSE = 3;
   */
  REFUSE = 3,
}

/**
 * Describes the enum longhand.v1.SecretAction.
 */
export const SecretActionSchema: GenEnum<SecretAction> = /*@__PURE__*/
  enumDesc(file_longhand_v1_session, 9);

/**
 * Creates, finds, changes, archives and forks sessions.
 *
 * @generated from service longhand.v1.SessionService
 */
export const SessionService: GenService<{
  /**
   * Creates a session. The server chooses its id.
   * The same request with the same `client_id` returns the session that it made, also after that session was changed;
   * another request with that `client_id` is refused.
   * Once that session is erased, its own request is refused, and another request makes another session.
   * Errors: INVALID_FIELD, LIMIT_EXCEEDED, CLIENT_ID_REUSED, PRESET_NOT_FOUND, POLICY_INVALID, SESSION_NOT_FOUND (the
   * parent), SESSION_ERASED.
   *
   * @generated from rpc longhand.v1.SessionService.CreateSession
   */
  createSession: {
    methodKind: "unary";
    input: typeof CreateSessionRequestSchema;
    output: typeof CreateSessionResponseSchema;
  },
  /**
   * Gets the current state of a session.
   * Errors: SESSION_NOT_FOUND.
   *
   * @generated from rpc longhand.v1.SessionService.GetSession
   */
  getSession: {
    methodKind: "unary";
    input: typeof GetSessionRequestSchema;
    output: typeof GetSessionResponseSchema;
  },
  /**
   * Lists sessions, newest first unless another order is asked for, and without their policies unless these are asked
   * for. A page looks at no more than 10000 sessions, and can therefore be short or empty before the last one. In an order
   * by last change, a session that changes between two pages changes its place: it may be in both, or in none.
   * Errors: SESSION_NOT_FOUND (the parent or the root), PAGE_TOKEN_INVALID, INVALID_FIELD, LIMIT_EXCEEDED.
   *
   * @generated from rpc longhand.v1.SessionService.ListSessions
   */
  listSessions: {
    methodKind: "unary";
    input: typeof ListSessionsRequestSchema;
    output: typeof ListSessionsResponseSchema;
  },
  /**
   * Follows a list of sessions: the sessions that it has, newest first, and then its changes, until the client cancels it.
   * The stream keeps nothing of what the client has: a session in `changed_sessions` has come or has changed, by what the
   * client knows of it, and what comes twice is the same. Changes that come while the client does not read come together,
   * each session once. Of a session that leaves what the caller's access token is bound to, nothing more comes.
   * It ends with SHUTTING_DOWN when the daemon stops, and with NO_OWNER when a shard is added to the database; the last
   * cursor resumes it.
   * Errors: SESSION_NOT_FOUND (the parent or the root), INVALID_FIELD, LIMIT_EXCEEDED, CURSOR_INVALID, CURSOR_FOREIGN,
   * CURSOR_OUT_OF_RANGE, TOO_MANY_STREAMS, READER_STALLED, SHUTTING_DOWN, NO_OWNER.
   *
   * @generated from rpc longhand.v1.SessionService.WatchSessions
   */
  watchSessions: {
    methodKind: "server_streaming";
    input: typeof WatchSessionsRequestSchema;
    output: typeof WatchSessionsResponseSchema;
  },
  /**
   * Changes a session's title, metadata, model window or policy. Only the fields that are set change.
   * Errors: SESSION_NOT_FOUND, SESSION_ARCHIVED, REVISION_MISMATCH, PRESET_NOT_FOUND, POLICY_INVALID, INVALID_FIELD,
   * LIMIT_EXCEEDED, REQUEST_ID_REUSED.
   *
   * @generated from rpc longhand.v1.SessionService.UpdateSession
   */
  updateSession: {
    methodKind: "unary";
    input: typeof UpdateSessionRequestSchema;
    output: typeof UpdateSessionResponseSchema;
  },
  /**
   * Archives a session, or restores it. An archived session can be read and forked, not written.
   * Errors: SESSION_NOT_FOUND, REQUEST_ID_REUSED.
   *
   * @generated from rpc longhand.v1.SessionService.ArchiveSession
   */
  archiveSession: {
    methodKind: "unary";
    input: typeof ArchiveSessionRequestSchema;
    output: typeof ArchiveSessionResponseSchema;
  },
  /**
   * Adds a label to a session; one that it has stays. An archived session can get labels, and a fork begins with none.
   * `expected_revision` of other requests ignores labels.
   * Errors: SESSION_NOT_FOUND, INVALID_FIELD, LIMIT_EXCEEDED, REQUEST_ID_REUSED.
   *
   * @generated from rpc longhand.v1.SessionService.AddLabel
   */
  addLabel: {
    methodKind: "unary";
    input: typeof AddLabelRequestSchema;
    output: typeof AddLabelResponseSchema;
  },
  /**
   * Removes a label from a session; one that it has not is no error.
   * Errors: SESSION_NOT_FOUND, INVALID_FIELD, LIMIT_EXCEEDED, REQUEST_ID_REUSED.
   *
   * @generated from rpc longhand.v1.SessionService.RemoveLabel
   */
  removeLabel: {
    methodKind: "unary";
    input: typeof RemoveLabelRequestSchema;
    output: typeof RemoveLabelResponseSchema;
  },
  /**
   * Creates a session that shares another session's history up to a point. Nothing is copied.
   * Open messages are not inherited. The same request with the same `client_id` returns the fork that it made, whatever
   * changed since; another request with that `client_id` is refused.
   * Errors: SESSION_NOT_FOUND, MESSAGE_NOT_FOUND, MESSAGE_OPEN, REVISION_OUT_OF_RANGE, CLIENT_ID_REUSED, INVALID_FIELD,
   * LIMIT_EXCEEDED; BOUNDARY_INVALID for a fork after a message that was sealed only after a rewind had left it out.
   *
   * @generated from rpc longhand.v1.SessionService.ForkSession
   */
  forkSession: {
    methodKind: "unary";
    input: typeof ForkSessionRequestSchema;
    output: typeof ForkSessionResponseSchema;
  },
}> = /*@__PURE__*/
  serviceDesc(file_longhand_v1_session, 0);

