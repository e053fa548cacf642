/* translation.h - the body of another protocol, translated into the body of a chat completion: fields by a table, and
 * messages and tools that are written one after another. One thread at a time.
 *
 * Callers must check yk_translation_failed before they report another error: after a failed allocation a valid body may
 * look invalid. Functions with yk_err return YK_E_FORMAT, YK_E_INVAL or YK_E_UNSUPPORTED, with the field at fault in
 * param. */
#ifndef YK_OPENAI_TRANSLATION_H
#define YK_OPENAI_TRANSLATION_H

#include "openai/request.h"

/* The message that is being written: texts and, of an assistant, reasoning and calls. */
typedef struct yk_translated_message {
  const char *role;                  /* static; NULL: none is open */
  char place[YK_OPENAI_PARAM_BYTES]; /* of its first part in the body: "input[3]" */
  yk_strbuf parts;                   /* [n_parts] content parts, separated by commas */
  size_t n_parts;
  yk_strbuf reasoning, calls; /* escaped text; elements of tool_calls, separated by commas */
  yk_strbuf result_of;        /* of a tool: the id of its call, as a JSON string */
} yk_translated_message;

/* Hashes of the calls' ids, so that a long conversation is checked in linear time. */
typedef struct yk_call_ids {
  uint64_t *slots; /* [n_slots] open addressing; 0: free */
  size_t n, n_slots;
} yk_call_ids;

typedef struct yk_translation {
  yk_strbuf body;                    /* of the chat completion; without its last brace until yk_translation_end */
  yk_strbuf echo;                    /* yk_openai_request.repeated */
  bool is_empty;                     /* yk_openai_request.is_empty */
  bool hides_reasoning;              /* the answer leaves reasoning out */
  bool encrypts_reasoning;           /* yk_openai_request.encrypts_reasoning */
  char param[YK_OPENAI_PARAM_BYTES]; /* the field that is being read */
  const yk_openai_defaults *defaults;
  yk_strbuf messages, tools;             /* elements, separated by commas */
  yk_strbuf message_places, tool_places; /* path of each of these in the client's body, each NUL-terminated */
  yk_translated_message message;
  yk_call_ids call_ids;
  bool failed; /* an allocation failed outside the buffers */
} yk_translation;

/* yk_translation_begin - an empty body. defaults must outlive the translation. */
void yk_translation_begin(yk_translation *t, const yk_openai_defaults *defaults);

/* yk_translation_failed - whether an allocation has failed. */
bool yk_translation_failed(const yk_translation *t);

/* yk_translation_end - complete the body. Errors: YK_E_NOMEM. */
yk_status yk_translation_end(yk_translation *t, yk_err *err);
void yk_translation_free(yk_translation *t);

/* ---- Fields ------------------------------------------------------------------------------------------------------ */

typedef enum yk_field_rule {
  YK_FIELD_COPY,   /* a field of the chat completion with the same meaning, checked there */
  YK_FIELD_READ,   /* read by the translation itself */
  YK_FIELD_PASSED, /* accepted and ignored: no visible effect on the answer. The others with their type checked */
  YK_FIELD_PASSED_TEXT,
  YK_FIELD_PASSED_FLAG,
  YK_FIELD_PASSED_NUMBER,
  YK_FIELD_PASSED_OBJECT,
  YK_FIELD_OFF /* only false, or an empty string, array or object: the feature is not supported */
} yk_field_rule;

typedef struct yk_translated_field {
  const char *name;
  yk_field_rule rule;
} yk_translated_field;

/* yk_translation_fields - check that the body is an object, copy fields, report unknown ones, refuse those that are not
 *   supported. fields [n]. */
yk_status yk_translation_fields(yk_translation *t, yk_json body, const yk_translated_field *fields, size_t n,
                                yk_err *err);

/* yk_translation_has_field - whether the table has a field. */
bool yk_translation_has_field(const yk_translated_field *fields, size_t n, const char *name);

/* yk_translation_at - set param, for the errors that follow. */
void yk_translation_at(yk_translation *t, const char *fmt, ...) YK_PRINTF(2, 3);

/* yk_translation_take - a field of the body, for reading; sets param. Absent if null. */
yk_json yk_translation_take(yk_translation *t, yk_json body, const char *name);

/* yk_translation_refuse - an error that begins with param. */
yk_status yk_translation_refuse(const yk_translation *t, yk_status status, yk_err *err, const char *fmt, ...)
    YK_PRINTF(4, 5);

/* yk_translation_wrong - the value at param is not as expected ("a string"). */
yk_status yk_translation_wrong(const yk_translation *t, const char *expected, yk_json found, yk_err *err);

/* yk_translation_field - begin a field of the chat completion; returns the buffer to which its value is appended. */
yk_strbuf *yk_translation_field(yk_translation *t, const char *name);

/* yk_translation_note - reports an ignored part of the body ("tool type") to yk_openai_defaults.pass_over. */
void yk_translation_note(const yk_translation *t, const char *kind, yk_json name);

/* ---- Messages and tools ------------------------------------------------------------------------------------------ */

/* yk_translation_message - begin a message of this role (static), after ending the one before. */
void yk_translation_message(yk_translation *t, const char *role);

/* yk_translation_assistant - the same for an assistant, unless the open message is one. */
void yk_translation_assistant(yk_translation *t);

/* yk_translation_text / _reasoning - add to the open message. */
void yk_translation_text(yk_translation *t, const char *text, size_t n_bytes);
void yk_translation_reasoning(yk_translation *t, const char *text, size_t n_bytes);

/* yk_translation_call - add a call to the open message, an assistant's. id, name: strings; arguments: their JSON. */
void yk_translation_call(yk_translation *t, yk_json id, yk_json name, const char *arguments, size_t n_bytes);

/* yk_translation_result - begin the message of a tool with the result of this call. False: no call has the id. */
bool yk_translation_result(yk_translation *t, yk_json id);

/* yk_translation_end_message - end the open message, if there is one. */
void yk_translation_end_message(yk_translation *t);

/* yk_translation_check_strict - refuse "strict" of a tool or a format that is no boolean. The place is the object's.
 *   Errors: YK_E_FORMAT. */
yk_status yk_translation_check_strict(yk_translation *t, yk_json object, yk_err *err);

/* yk_translation_tool - add the tool at param. description, parameters, strict: may be absent. key: of the client's
 *   parameters. */
void yk_translation_tool(yk_translation *t, yk_json name, yk_json description, yk_json parameters, const char *key,
                         yk_json strict);

#endif
