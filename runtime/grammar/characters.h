/* characters.h - keeps constrained outputs valid UTF-8. The grammar library permits byte tokens that form surrogates,
 * and after some texts overlong forms; the functions here remove these tokens from its masks. The library's masks also
 * permit some tokens that the library then refuses: tokens that end with the first byte of a character. The functions
 * below find the tokens to check. */
#ifndef YK_GRAMMAR_CHARACTERS_H
#define YK_GRAMMAR_CHARACTERS_H

#include "text/token_bytes.h"

/* The incomplete character at the end of an output. Zero: the output ends between characters. */
typedef struct yk_cut_character {
  unsigned char lead;    /* its first byte */
  unsigned char n_bytes; /* bytes of it that the output has: 0 to 3 */
} yk_cut_character;

/* A token that ends with the first byte of a character, 0xE0 or 0xF0. The library's masks permit some of these tokens
 * even where only ASCII may follow. */
typedef struct yk_suspect_token {
  int32_t id;
  int32_t peer; /* a token that differs only in this byte, or -1: where the mask permits the peer, it is right */
} yk_suspect_token;

enum { YK_CUT_ENDS = 8 }; /* kinds of ends of an output that the same tokens may follow */

/* The tokens of a vocabulary whose bytes are not a sequence of whole UTF-8 characters. */
typedef struct yk_cut_tokens {
  int32_t *ids; /* [n], ascending */
  size_t n;
  uint32_t *followers;        /* [YK_CUT_ENDS, n_words] ids of the vocabulary that may follow an end, as bits: id % 32
                               * of word id / 32 */
  size_t n_words;             /* (n_ids + 31) / 32 */
  yk_suspect_token *suspects; /* [n_suspects] */
  size_t n_suspects;
} yk_cut_tokens;

/* yk_cut_tokens_create - finds these tokens; tokens without bytes, such as special tokens, are not among them. The
 *   caller frees *out with yk_cut_tokens_free. Errors: YK_E_NOMEM; *out is then empty. Thread: any. */
yk_status yk_cut_tokens_create(const yk_token_bytes *tokens, yk_cut_tokens *out, yk_err *err);
void yk_cut_tokens_free(yk_cut_tokens *cut);

/* yk_cut_character_extend - updates *at for text [n_bytes] that is appended to the output. False: the output is then
 *   not valid UTF-8, and *at is undefined. Thread: any. */
bool yk_cut_character_extend(yk_cut_character *at, const char *text, size_t n_bytes);

/* yk_cut_tokens_exclude - clears the bits in words [cut->n_words] of ids that cannot follow an output that ends with
 *   `at`: tokens whose bytes would make the output invalid UTF-8, and, within a character, all ids that are not in cut.
 *   Thread: any; calls with different words may run at the same time. */
void yk_cut_tokens_exclude(const yk_cut_tokens *cut, yk_cut_character at, uint32_t *words);

/* yk_suspect_token_needs_check - whether words permit the token without sign that they are right to. Thread: any. */
bool yk_suspect_token_needs_check(yk_suspect_token token, const uint32_t *words);

#endif
