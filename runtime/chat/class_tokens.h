/* class_tokens.h - special tokens that tokenizer_config.json leaves to the class it names: the classes' own, in
 * transformers. */
#ifndef YK_CHAT_CLASS_TOKENS_H
#define YK_CHAT_CLASS_TOKENS_H

#include "base/json_tree.h"
#include "base/status.h"

/* yk_class_tokens_add - what a class ("LlamaTokenizer", with or without "Fast" behind; NULL: none is named) calls
 *   "bos_token", "eos_token", "unk_token" and "pad_token", into an object; nothing of a class that has none of its own
 *   or is not known. Errors: YK_E_NOMEM. */
yk_status yk_class_tokens_add(const char *tokenizer_class, json_t *tokens, yk_err *err);

#endif
