/* special_tokens.h - the special tokens that tokenizer_config.json and special_tokens_map.json name. */
#ifndef YK_TEXT_SPECIAL_TOKENS_H
#define YK_TEXT_SPECIAL_TOKENS_H

#include "base/json.h"
#include "base/status.h"

/* yk_tokenizer_config_read - the object in a file of a directory, or an empty one where the file is missing. keeps: as
 *   in yk_json_rules. Errors: those of yk_json_parse_file, and YK_E_FORMAT where the file holds something else. */
yk_status yk_tokenizer_config_read(const char *dir, const char *name, bool (*keeps)(const char *key), yk_json_doc **out,
                                   yk_err *err);

/* yk_special_tokens_find - "bos_token" and so on as strings, and those without a name as the list
 *   "additional_special_tokens": an object, freed by the caller with yk_json_free.
 *   As in transformers, they are those of the class that tokenizer_config.json, an object, names (class_tokens.h); in
 *   their place those that the file has, each a string, {"content"}, or null or "" for none; and where it has no
 *   "added_tokens_decoder", in their place those of special_tokens_map.json, of the directory dir.
 *   Errors: YK_E_FORMAT (named by file and key), YK_E_IO, YK_E_NOMEM. */
yk_status yk_special_tokens_find(const char *dir, yk_json config, yk_json_doc **out, yk_err *err);

#endif
