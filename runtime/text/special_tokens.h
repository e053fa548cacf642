/* special_tokens.h - the special tokens that tokenizer_config.json and special_tokens_map.json name. */
#ifndef YK_TEXT_SPECIAL_TOKENS_H
#define YK_TEXT_SPECIAL_TOKENS_H

#include <stdbool.h>

#include "base/json.h"
#include "base/status.h"

/* Files next to a tokenizer.json: documents whose root is an object, owned. */
typedef struct yk_tokenizer_files {
  yk_json_doc *config; /* tokenizer_config.json; an empty object if the file is missing */
  /* special_tokens_map.json; NULL if missing, or if transformers does not read it, since tokenizer_config.json has
   * "added_tokens_decoder" */
  yk_json_doc *map;
} yk_tokenizer_files;

/* yk_tokenizer_files_read - read the files of a directory. keeps: as in yk_json_rules, for tokenizer_config.json. Free
 *   with yk_tokenizer_files_free, even after an error.
 *   Errors: those of yk_json_parse_file, and YK_E_FORMAT for a file whose root is not an object. */
yk_status yk_tokenizer_files_read(const char *dir, bool (*keeps)(const char *key), yk_tokenizer_files *out,
                                  yk_err *err);
void yk_tokenizer_files_free(yk_tokenizer_files *files);

/* yk_tokenizer_config_keeps - whether a key of tokenizer_config.json concerns tokens: for the function above. */
bool yk_tokenizer_config_keeps(const char *key);

/* yk_special_tokens_find - "bos_token" and so on as strings, and tokens without a name as the list
 *   "additional_special_tokens": an object, which the caller frees with yk_json_free.
 *   As in transformers, each source overrides the one before: if of_class is set, the class that tokenizer_config.json
 *   names (class_tokens.h); tokenizer_config.json, with a string, {"content"}, or null or "" for none;
 *   special_tokens_map.json.
 *   Errors: YK_E_FORMAT (named by file and key), YK_E_NOMEM. */
yk_status yk_special_tokens_find(const yk_tokenizer_files *files, bool of_class, yk_json_doc **out, yk_err *err);

#endif
