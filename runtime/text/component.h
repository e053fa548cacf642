/* component.h - functions shared by the readers of a tokenizer.json's parts (normalizer, pre_tokenizer, ...). */
#ifndef YK_TEXT_COMPONENT_H
#define YK_TEXT_COMPONENT_H

#include "base/json.h"
#include "text/regex.h"

/* Limits on nested sequences of parts. Real files have up to seven parts in one sequence. */
enum { YK_COMPONENT_MAX_DEPTH = 8, YK_COMPONENT_MAX_STEPS = 32 };

/* yk_component_type - the "type" of a part; the argument `what` names the part in errors ("normalizer"). */
yk_status yk_component_type(const char *file, const char *what, yk_json part, const char **type, yk_err *err);

/* yk_component_unsupported - the error for a type that is not implemented; supported lists the implemented types. */
yk_status yk_component_unsupported(const char *file, const char *what, const char *type, const char *supported,
                                   yk_err *err);

/* yk_component_too_many - the error for more than YK_COMPONENT_MAX_STEPS. */
yk_status yk_component_too_many(const char *file, const char *what, yk_err *err);

/* yk_component_list - the array under key; checks the depth of nesting. */
yk_status yk_component_list(const char *file, const char *what, yk_json part, const char *key, int depth, yk_json *list,
                            yk_err *err);

/* yk_component_text - a required string and its length, which may be 0; it may contain NUL characters. Lives as long as
 *   part does. */
yk_status yk_component_text(const char *file, yk_json part, const char *key, const char **text, size_t *n_bytes,
                            yk_err *err);

/* yk_component_character - a required string of exactly one character. */
yk_status yk_component_character(const char *file, yk_json part, const char *key, const char **text, size_t *n_bytes,
                                 yk_err *err);

/* A Metaspace, as pre-tokeniser or decoder: spaces are written as a replacement character. */
typedef struct yk_metaspace {
  char replacement[5]; /* one character */
  size_t replacement_bytes;
  enum { YK_PREPEND_ALWAYS, YK_PREPEND_FIRST, YK_PREPEND_NEVER } scheme; /* FIRST: only at the beginning of the text */
  bool split;                                                            /* cut before every replacement */
} yk_metaspace;

/* yk_component_metaspace - read a Metaspace of tokenizer.json. Errors: YK_E_FORMAT, YK_E_UNSUPPORTED; file: in their
 *   messages. */
yk_status yk_component_metaspace(const char *file, yk_json part, yk_metaspace *out, yk_err *err);

/* yk_component_pattern - compile {"Regex": "..."} or {"String": "..."} under "pattern". */
yk_status yk_component_pattern(const char *file, yk_json part, yk_regex **out, yk_err *err);

#endif
