/* added_tokens.h - the "added_tokens" of a tokenizer.json: texts that are one token wherever they occur.
 *
 * Tokens that are not "normalized" are cut out of the text as it comes; the others, in their normalised form, out of
 * the normalised rest. Leftmost first, then longest. */
#ifndef YK_TEXT_ADDED_TOKENS_H
#define YK_TEXT_ADDED_TOKENS_H

#include "base/json.h"
#include "text/normalizer.h"
#include "text/pieces.h"
#include "text/regex.h"
#include "text/trie.h"
#include "text/vocab.h"

typedef struct yk_added_token {
  char *normal_form; /* where it differs from the content: what is searched for, and what decoding starts from */
  size_t normal_form_bytes;
  bool special;
  bool skipped;     /* left out by skip_special_tokens: what decoding starts from is the content of a special token */
  bool normalized;  /* looked for in the normalised text */
  bool single_word; /* only between characters that are not of a word */
  bool lstrip, rstrip; /* takes the white space before, after it along */
} yk_added_token;

typedef struct yk_added_tokens {
  yk_vocab contents;      /* entry i is token i */
  yk_added_token *tokens; /* [contents.n_entries] */
  yk_trie raw, normalized;
  yk_regex *word; /* one character of a word; NULL where no token needs it */
} yk_added_tokens;

/* The files beside a tokenizer.json that have added tokens; each may be absent. */
typedef struct yk_more_tokens {
  yk_json config;  /* the object in tokenizer_config.json */
  yk_json special; /* yk_special_tokens_find's, without what a class alone names */
  yk_json map;     /* the object in special_tokens_map.json */
} yk_more_tokens;

/* yk_added_tokens_parse - read the value of "added_tokens" (absent or null: none), then, as transformers 5 does, the
 *   tokens of "added_tokens_decoder" in tokenizer_config.json, which also change how a known token is found, and the
 *   special tokens that are no added tokens yet. A token that model has keeps its id there; the others must follow the
 *   vocabulary without gaps, as the public implementation numbers them.
 *   Errors: YK_E_FORMAT (named by file and token: an id that is another's, or not the next free one), YK_E_NOMEM.
 *   On failure nothing is left to free. */
yk_status yk_added_tokens_parse(yk_added_tokens *added, const char *file, yk_json value, const yk_more_tokens *more,
                                const yk_vocab *model, const yk_normalizer *normalizer, yk_err *err);
void yk_added_tokens_free(yk_added_tokens *added);

/* yk_added_tokens_cut - cut the tokens of trie (&added->raw or &added->normalized) out of a piece of text.
 *   The piece is n_bytes at text; its parts are appended to out, with begin counted from offset. plain: stretches of
 *   the piece, in order and apart, of which no token may hold anything. */
yk_status yk_added_tokens_cut(const yk_added_tokens *added, const yk_trie *trie, const char *text, size_t n_bytes,
                              const yk_spans *plain, size_t offset, bool at_start, yk_pieces *out, yk_err *err);

#endif
