#include "text/plain_marks.h"

#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer_parts.h"

/* A text, and the range of its words: the text without white space at its ends. */
typedef struct subject {
  const char *text;
  size_t n_bytes, words_begin, words_end;
} subject;

static subject make_subject(const char *text, size_t n_bytes)
{
  subject made = {text, n_bytes, n_bytes, 0};
  for (size_t at = 0; at < n_bytes;) {
    uint32_t code_point;
    size_t length = yk_utf8_decode(text + at, n_bytes - at, &code_point);
    if (length == 0) length = 1;
    if (!yk_utf8_is_white_space(code_point) && (code_point < 0x1C || code_point > 0x1F)) { /* as Python's strip */
      if (made.words_begin > at) made.words_begin = at;
      made.words_end = at + length;
    }
    at += length;
  }
  return made;
}

/* Whether a token is at position at, or the text, or its words, ends inside a possible token there. */
static bool token_begins(const yk_trie *trie, const subject *in, size_t at)
{
  int32_t node = trie->n_nodes > 0 ? trie->root[(unsigned char)in->text[at]] : -1;
  for (size_t end = at + 1; node >= 0; end++) {
    if (trie->nodes[node].value >= 0 || end == in->n_bytes || end == in->words_end) return true;
    node = trie->nodes[node].first_child;
    while (node >= 0 && trie->nodes[node].byte != (unsigned char)in->text[end]) node = trie->nodes[node].next_sibling;
  }
  return false;
}

static bool equal_so_far(const char *a, size_t n_a, const char *b, size_t n_b)
{
  return memcmp(a, b, n_a < n_b ? n_a : n_b) == 0;
}

/* Whether the text from begin to end could be the remaining text of the token, or a part of it. */
static bool continues_token(const char *token, size_t token_bytes, const subject *in, size_t begin, size_t end)
{
  for (size_t k = 1; k < token_bytes; k++)
    if (token[k] == in->text[begin] && equal_so_far(token + k, token_bytes - k, in->text + begin, end - begin))
      return true;
  return false;
}

/* Whether a token could begin before begin and extend into the text. */
static bool token_reaches_into(const yk_added_tokens *added, const subject *in, size_t begin)
{
  if (begin == in->n_bytes) return false;
  for (int32_t i = 0; i < added->contents.n_entries; i++) {
    size_t n_bytes;
    const char *token = yk_vocab_text(&added->contents, i, &n_bytes);
    if (added->tokens[i].normal_form) {
      token = added->tokens[i].normal_form;
      n_bytes = added->tokens[i].normal_form_bytes;
    }
    if (continues_token(token, n_bytes, in, begin, in->n_bytes)) return true;
    if (begin < in->words_end && continues_token(token, n_bytes, in, begin, in->words_end)) return true;
  }
  return false;
}

static bool needs_mark(const yk_tokenizer *tokenizer, const subject *in, size_t at)
{
  const yk_added_tokens *added = &tokenizer->added;
  if (token_begins(&added->raw, in, at) || token_begins(&added->normalized, in, at)) return true;
  return (at == 0 || at == in->words_begin) && token_reaches_into(added, in, at);
}

/* Whether the text's normal form could contain a token that the text itself does not. Then every character needs a
 * mark, since the characters that form the token are unknown. */
static yk_status normal_form_needs_marks(const yk_tokenizer *tokenizer, const subject *in, bool *needs, yk_err *err)
{
  yk_strbuf form = YK_STRBUF_INIT;
  *needs = false;
  if (in->n_bytes == 0 || tokenizer->normalizer.n_steps == 0 || tokenizer->added.normalized.n_nodes == 0) return YK_OK;
  yk_status status = yk_normalizer_apply(&tokenizer->normalizer, in->text, in->n_bytes, &form, NULL, err);
  bool same = status == YK_OK && form.length == in->n_bytes && memcmp(form.data, in->text, in->n_bytes) == 0;
  if (status == YK_OK && !same) {
    subject normal = make_subject(form.data, form.length);
    for (size_t at = 0; at < form.length && !*needs; at++) *needs = needs_mark(tokenizer, &normal, at);
  }
  /* The first character may combine with the character before the text. */
  *needs = *needs || (unsigned char)in->text[0] >= 0x80;
  yk_strbuf_free(&form);
  return status;
}

yk_status yk_tokenizer_find_plain_marks(const yk_tokenizer *tokenizer, const char *text, size_t n_bytes,
                                        yk_spans *marks, yk_err *err)
{
  subject in = make_subject(text, n_bytes);
  bool all;
  marks->n = 0;
  YK_TRY(normal_form_needs_marks(tokenizer, &in, &all, err));
  for (size_t at = 0; at < n_bytes;) {
    uint32_t code_point;
    size_t length = yk_utf8_decode(text + at, n_bytes - at, &code_point);
    if (length == 0) length = 1;
    if ((all || needs_mark(tokenizer, &in, at)) && !yk_spans_append(marks, at, at + length))
      return yk_err_set(err, YK_E_NOMEM, "no memory for the plain parts of %zu bytes", n_bytes);
    at += length;
  }
  return YK_OK;
}
