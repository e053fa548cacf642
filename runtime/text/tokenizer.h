/* tokenizer.h - text to token ids and back, as a Hugging Face tokenizer.json describes it.
 *
 * Ids and texts are those of the public `tokenizers` package, byte for byte, for BPE models: byte-level (GPT-2, Qwen,
 * Llama 3, DeepSeek) and character-level with byte fallback (Llama 2, Mistral). A part of another type is refused by
 * name. "truncation" and "padding" are not applied: they belong to the caller's request.
 * Characters newer than Unicode 14 are treated as unassigned by the pattern and normalisation libraries.
 *
 * A tokenizer never changes after it was loaded: any number of threads may use one at once. Owner: whoever loaded
 * it. */
#ifndef YK_TEXT_TOKENIZER_H
#define YK_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/strbuf.h"
#include "text/span.h"

typedef struct yk_tokenizer yk_tokenizer;

/* yk_tokenizer_load - from a tokenizer.json, a directory that holds one, or a model file (.bin) that has one beside
 *   it.
 *   Added and special tokens that only tokenizer_config.json and special_tokens_map.json beside it name are tokens,
 *   too, as in transformers (added_tokens.h).
 *   YK_E_IO where it cannot be read, YK_E_FORMAT where it is malformed or contradicts itself, YK_E_UNSUPPORTED for
 *   what is not implemented, among it a directory with only a tokenizer.model, and a GGUF file (the message says how to
 *   convert it). */
yk_status yk_tokenizer_load(const char *path, yk_tokenizer **out, yk_err *err);

/* yk_tokenizer_parse - the same from memory; name appears in errors. */
yk_status yk_tokenizer_parse(const char *name, const char *json, size_t n_bytes, yk_tokenizer **out, yk_err *err);

void yk_tokenizer_free(yk_tokenizer *tokenizer);

/* yk_tokenizer_encode - ids of a text of n_bytes of UTF-8, which may hold NUL characters. Texts of added tokens ("<s>")
 *   become those tokens wherever they occur. add_special_tokens adds what the model wants around every text (BOS).
 *   The caller frees *ids, which may be NULL where *n_ids is 0.
 *   Errors: YK_E_INVAL for malformed UTF-8, naming the byte offset, and for a text that the model's pattern cannot cut
 *   within its limits. Time grows as n log n in the length of the text. */
yk_status yk_tokenizer_encode(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special_tokens,
                              int32_t **ids, size_t *n_ids, yk_err *err);

/* yk_tokenizer_encode_partly_plain - the same of a text in which parts are plain: no added token holds anything of
 *   them. Where an added token would have been, the text is cut into pieces and merged as if the token did not exist,
 *   across the ends of the parts too.
 *   plain: byte offsets of whole characters, in order and apart; none: as yk_tokenizer_encode. The white space that a
 *   token takes along (lstrip, rstrip) may be plain.
 *   Errors: those of yk_tokenizer_encode, and YK_E_INVAL for spans that are empty, out of order or outside the text. */
yk_status yk_tokenizer_encode_partly_plain(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                           const yk_spans *plain, bool add_special_tokens, int32_t **ids, size_t *n_ids,
                                           yk_err *err);

/* yk_tokenizer_vocab_size - the largest id + 1, added tokens included. A model's logits may have more columns. */
int32_t yk_tokenizer_vocab_size(const yk_tokenizer *tokenizer);

/* yk_tokenizer_token_id - the id of a token by its exact text ("<|im_end|>"), or -1. */
int32_t yk_tokenizer_token_id(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes);

/* yk_tokenizer_eos_id - the id of "eos_token", with which answers end, as those files or the class of tokenizer that
 *   they name have it; -1: none, or no token of this vocabulary. */
int32_t yk_tokenizer_eos_id(const yk_tokenizer *tokenizer);

/* yk_tokenizer_token_text - the text of a token as the file has it (byte-level characters, U+2581 for a space), or
 *   NULL. Lives as long as the tokenizer; *n_bytes long, not NUL-terminated. */
const char *yk_tokenizer_token_text(const yk_tokenizer *tokenizer, int32_t id, size_t *n_bytes);

#endif
