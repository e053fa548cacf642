/* tokenizer_info.h - what /tokenizer_info tells: tokenizer_config.json as vLLM shows it. */
#ifndef YK_SERVER_TOKENIZER_INFO_H
#define YK_SERVER_TOKENIZER_INFO_H

#include "base/status.h"
#include "base/strbuf.h"

/* yk_tokenizer_info_append - an object of what tokenizer_config.json says, but for names of files, with added tokens as
 *   their texts; "tokenizer_class", and "chat_template" where there is one: the text that is used. path: of the
 *   tokenizer, as yk_tokenizer_load takes it; a checkpoint without the file gives these two keys. chat_template: as in
 *   yk_chat_options. Errors: YK_E_FORMAT, YK_E_IO, YK_E_NOMEM. Any thread. */
yk_status yk_tokenizer_info_append(const char *path, const char *chat_template, yk_strbuf *out, yk_err *err);

#endif
