/* tokenizer.h - text to token ids and back, by a Hugging Face tokenizer.json.
 *
 * Ids and texts equal those of the public `tokenizers` package, byte for byte, for BPE models: byte-level (GPT-2, Qwen,
 * Llama 3, DeepSeek) and character-level with byte fallback (Llama 2, Mistral). A part of another type is refused by
 * name. "truncation" and "padding" are not applied: they belong to the caller's request.
 * Characters newer than Unicode 14 are treated as unassigned by the pattern and normalisation libraries.
 *
 * A tokenizer does not change after loading: any number of threads may use one at once. Owner: the loading function's
 * caller. */
#ifndef YK_TEXT_TOKENIZER_H
#define YK_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/strbuf.h"
#include "text/span.h"

typedef struct yk_tokenizer yk_tokenizer;

/* yk_tokenizer_load - load a tokenizer.json, a directory that contains one, or a model file (.bin) with one next to it.
 *   Added and special tokens that only tokenizer_config.json and special_tokens_map.json in the same directory name are
 *   tokens, too, as in transformers (added_tokens.h).
 *   YK_E_IO if it cannot be read, YK_E_FORMAT if it is malformed or contradicts itself, YK_E_UNSUPPORTED if it is not
 *   implemented, for example a directory with only a tokenizer.model, and a GGUF file (the message says how to convert
 *   it). */
yk_status yk_tokenizer_load(const char *path, yk_tokenizer **out, yk_err *err);

/* yk_tokenizer_parse - the same from memory; name appears in errors. */
yk_status yk_tokenizer_parse(const char *name, const char *json, size_t n_bytes, yk_tokenizer **out, yk_err *err);

void yk_tokenizer_free(yk_tokenizer *tokenizer);

/* yk_tokenizer_encode - ids of a text of n_bytes of UTF-8, which may contain NUL characters. Texts of added tokens
 *   ("<s>") become those tokens wherever they occur. add_special_tokens adds the tokens that the model expects around
 *   every text (BOS). The caller frees *ids, which may be NULL if *n_ids is 0.
 *   Errors: YK_E_INVAL for malformed UTF-8, naming the byte offset, and for a text that the model's pattern cannot cut
 *   within its limits. Time grows as n log n in the length of the text. */
yk_status yk_tokenizer_encode(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special_tokens,
                              int32_t **ids, size_t *n_ids, yk_err *err);

/* yk_tokenizer_encode_partly_plain - the same for a text with plain parts: no added token contains any byte of them. At
 *   such a position, the text is cut into pieces and merged as if the added token did not exist, also across the ends
 *   of the parts.
 *   plain: byte offsets of whole characters, ordered and disjoint; none: as yk_tokenizer_encode. The white space that a
 *   token takes along (lstrip, rstrip) may be plain.
 *   Errors: those of yk_tokenizer_encode, and YK_E_INVAL for spans that are empty, out of order or outside the text. */
yk_status yk_tokenizer_encode_partly_plain(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                           const yk_spans *plain, bool add_special_tokens, int32_t **ids, size_t *n_ids,
                                           yk_err *err);

/* yk_tokenizer_vocab_size - the largest id + 1, with added tokens. A model's logits may have more columns. */
int32_t yk_tokenizer_vocab_size(const yk_tokenizer *tokenizer);

/* yk_tokenizer_token_id - the id of a token by its exact text ("<|im_end|>"), or -1. */
int32_t yk_tokenizer_token_id(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes);

/* yk_tokenizer_eos_id - the id of "eos_token", which ends an answer, from those files or from the tokenizer class that
 *   they name; -1: none, or no token of this vocabulary. */
int32_t yk_tokenizer_eos_id(const yk_tokenizer *tokenizer);

/* yk_tokenizer_token_text - the text of a token as in the file (byte-level characters, U+2581 for a space), or NULL.
 *   Lives as long as the tokenizer; *n_bytes long, not NUL-terminated. */
const char *yk_tokenizer_token_text(const yk_tokenizer *tokenizer, int32_t id, size_t *n_bytes);

#endif
