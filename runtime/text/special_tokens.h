/* special_tokens.h - the special tokens that tokenizer_config.json and special_tokens_map.json name. */
#ifndef YK_TEXT_SPECIAL_TOKENS_H
#define YK_TEXT_SPECIAL_TOKENS_H

#include <stdbool.h>

#include "base/json.h"
#include "base/status.h"

/* The files beside a tokenizer.json: documents of objects, owned. */
typedef struct yk_tokenizer_files {
  yk_json_doc *config; /* tokenizer_config.json; where it is missing, an empty object */
  yk_json_doc *map;    /* special_tokens_map.json; NULL where it is missing, or not read by transformers, since
                          tokenizer_config.json has "added_tokens_decoder" */
} yk_tokenizer_files;

/* yk_tokenizer_files_read - those of a directory. keeps: as in yk_json_rules, of tokenizer_config.json. Free with
 *   yk_tokenizer_files_free whatever is returned.
 *   Errors: those of yk_json_parse_file, and YK_E_FORMAT where a file holds no object. */
yk_status yk_tokenizer_files_read(const char *dir, bool (*keeps)(const char *key), yk_tokenizer_files *out,
                                  yk_err *err);
void yk_tokenizer_files_free(yk_tokenizer_files *files);

/* yk_tokenizer_config_keeps - whether a key of tokenizer_config.json is about tokens: for the function above. */
bool yk_tokenizer_config_keeps(const char *key);

/* yk_special_tokens_find - "bos_token" and so on as strings, and those without a name as the list
 *   "additional_special_tokens": an object, freed by the caller with yk_json_free.
 *   As in transformers, they are, where of_class is set, those of the class that tokenizer_config.json names
 *   (class_tokens.h); in their place those that the file has, each a string, {"content"}, or null or "" for none; and
 *   in their place those of special_tokens_map.json.
 *   Errors: YK_E_FORMAT (named by file and key), YK_E_NOMEM. */
yk_status yk_special_tokens_find(const yk_tokenizer_files *files, bool of_class, yk_json_doc **out, yk_err *err);

#endif
