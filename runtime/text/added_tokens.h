/* added_tokens.h - the "added_tokens" of a tokenizer.json: texts that are one token wherever they occur.
 *
 * Tokens that are not "normalized" are matched in the raw text; the other tokens are matched, in normalised form, in
 * the normalised remaining text. The leftmost match wins, then the longest. */
#ifndef YK_TEXT_ADDED_TOKENS_H
#define YK_TEXT_ADDED_TOKENS_H

#include "base/json.h"
#include "text/normalizer.h"
#include "text/pieces.h"
#include "text/regex.h"
#include "text/trie.h"
#include "text/vocab.h"

typedef struct yk_added_token {
  char *normal_form; /* set if it differs from the content; used for searching, and as the token's text in decoding */
  size_t normal_form_bytes;
  bool special;
  bool skipped;        /* left out by skip_special_tokens: its text in decoding is the content of a special token */
  bool normalized;     /* searched in the normalised text */
  bool single_word;    /* matches only between characters that belong to no word */
  bool lstrip, rstrip; /* also takes the white space before, after it */
} yk_added_token;

typedef struct yk_added_tokens {
  yk_vocab contents;      /* entry i is token i */
  yk_added_token *tokens; /* [contents.n_entries] */
  yk_trie raw, normalized;
  yk_regex *word; /* matches one character of a word; NULL if no token needs it */
} yk_added_tokens;

/* The files next to a tokenizer.json that contain added tokens; each may be absent. */
typedef struct yk_more_tokens {
  yk_json config;  /* the object in tokenizer_config.json */
  yk_json special; /* from yk_special_tokens_find with of_class false */
  yk_json map;     /* the object in special_tokens_map.json */
} yk_more_tokens;

/* yk_added_tokens_parse - read the value of "added_tokens" (absent or null: none), then, as transformers 5 does, the
 *   tokens of "added_tokens_decoder" in tokenizer_config.json, which also change how a known token is found, and the
 *   special tokens that are not added tokens yet. A token of the model's vocabulary keeps its id; the others must
 *   follow the vocabulary without gaps, as the public implementation numbers them.
 *   Errors: YK_E_FORMAT (names file and token: an id that another token has, or not the next free id), YK_E_NOMEM.
 *   On failure the caller frees nothing. */
yk_status yk_added_tokens_parse(yk_added_tokens *added, const char *file, yk_json value, const yk_more_tokens *more,
                                const yk_vocab *model, const yk_normalizer *normalizer, yk_err *err);
void yk_added_tokens_free(yk_added_tokens *added);

/* yk_added_tokens_cut - cut the tokens of trie (&added->raw or &added->normalized) out of a piece of text.
 *   The piece is n_bytes at text; its parts are appended to out, with begin counted from offset. plain: ordered,
 *   disjoint spans of the piece; no token may contain a byte of them. */
yk_status yk_added_tokens_cut(const yk_added_tokens *added, const yk_trie *trie, const char *text, size_t n_bytes,
                              const yk_spans *plain, size_t offset, bool at_start, yk_pieces *out, yk_err *err);

#endif
