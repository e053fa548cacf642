/* tokenizer_info.h - the answer of /tokenizer_info: tokenizer_config.json in vLLM's form. */
#ifndef YK_SERVER_TOKENIZER_INFO_H
#define YK_SERVER_TOKENIZER_INFO_H

#include "base/status.h"
#include "base/strbuf.h"

/* yk_tokenizer_info_append - an object with the contents of tokenizer_config.json, except names of files, with added
 *   tokens as their texts; "tokenizer_class", and "chat_template" if there is one: the text in use. path: of the
 *   tokenizer, as for yk_tokenizer_load; a checkpoint without the file yields these two keys. chat_template: as in
 *   yk_chat_options. Errors: YK_E_FORMAT, YK_E_IO, YK_E_NOMEM. Any thread. */
yk_status yk_tokenizer_info_append(const char *path, const char *chat_template, yk_strbuf *out, yk_err *err);

#endif
