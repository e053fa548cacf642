/* characters.h - outputs of a constraint are UTF-8. The grammar library permits byte tokens that form surrogates, and
 * after some texts overlong forms; these tokens are removed from its masks. */
#ifndef YK_GRAMMAR_CHARACTERS_H
#define YK_GRAMMAR_CHARACTERS_H

#include "text/token_bytes.h"

/* The character at the end of an output, of which some bytes are missing. Zero: the output ends between characters. */
typedef struct yk_cut_character {
  unsigned char lead;
  unsigned char n_bytes; /* that are there */
} yk_cut_character;

/* Tokens that are not whole characters. */
typedef struct yk_cut_tokens {
  int32_t *ids; /* [n], ascending */
  size_t n;
  uint32_t *mask; /* [(n_ids + 31) / 32]: the ids as bits */
  size_t n_words;
} yk_cut_tokens;

/* yk_cut_tokens_create - tokens without bytes are not among them. Errors: YK_E_NOMEM; *out is then empty. */
yk_status yk_cut_tokens_create(const yk_token_bytes *tokens, yk_cut_tokens *out, yk_err *err);
void yk_cut_tokens_free(yk_cut_tokens *cut);

/* yk_cut_character_extend - the output continues with text [n_bytes]. False: the output is not UTF-8 then, and *at is
 *   undefined. */
bool yk_cut_character_extend(yk_cut_character *at, const char *text, size_t n_bytes);

/* yk_cut_tokens_exclude - clear the bits of words [n_words] whose ids cannot follow: tokens that are not UTF-8 behind
 *   the output, and within a character every other id. Thread: any, for any number of outputs at once. */
void yk_cut_tokens_exclude(const yk_cut_tokens *cut, const yk_token_bytes *tokens, yk_cut_character at,
                           uint32_t *words);

#endif
