#include "text/detokenizer.h"

#include <stdlib.h>

#include "text/tokenizer_parts.h"

struct yk_detokenizer {
  const yk_tokenizer *tokenizer;
  bool skip_special_tokens;
  yk_decoder_stream stream;
};

yk_status yk_detokenizer_create(const yk_tokenizer *tokenizer, bool skip_special_tokens, yk_detokenizer **out,
                                yk_err *err)
{
  yk_detokenizer *detokenizer = calloc(1, sizeof *detokenizer);
  if (!detokenizer) return yk_err_set(err, YK_E_NOMEM, "no memory to decode");
  detokenizer->tokenizer = tokenizer;
  detokenizer->skip_special_tokens = skip_special_tokens;
  yk_status status = yk_decoder_stream_init(&detokenizer->stream, &tokenizer->decoder, err);
  if (status == YK_OK)
    *out = detokenizer;
  else
    free(detokenizer);
  return status;
}

void yk_detokenizer_free(yk_detokenizer *detokenizer)
{
  if (!detokenizer) return;
  yk_decoder_stream_free(&detokenizer->stream);
  free(detokenizer);
}

/* The text of a token in the decoder's input; NULL: none. */
static const char *text_of(const yk_detokenizer *detokenizer, int32_t id, size_t *n_bytes)
{
  const yk_tokenizer *tokenizer = detokenizer->tokenizer;
  const char *text = yk_tokenizer_token_text(tokenizer, id, n_bytes); /* NULL for a gap in the vocabulary */
  int32_t added = text ? yk_vocab_entry_of(&tokenizer->added.contents, id) : -1;
  if (added < 0) return text;
  const yk_added_token *token = &tokenizer->added.tokens[added];
  if (token->skipped && detokenizer->skip_special_tokens) return NULL;
  if (!token->normal_form) return text;
  *n_bytes = token->normal_form_bytes;
  return token->normal_form;
}

yk_status yk_detokenizer_push(yk_detokenizer *detokenizer, int32_t id, yk_strbuf *out, yk_err *err)
{
  const yk_tokenizer *tokenizer = detokenizer->tokenizer;
  if (id < 0 || id >= yk_tokenizer_vocab_size(tokenizer))
    return yk_err_set(err, YK_E_INVAL, "token id %d is outside the vocabulary of %d", id,
                      yk_tokenizer_vocab_size(tokenizer));
  size_t n_bytes;
  const char *text = text_of(detokenizer, id, &n_bytes);
  return text ? yk_decoder_stream_push(&detokenizer->stream, text, n_bytes, out, err) : YK_OK;
}

size_t yk_detokenizer_special_bytes(const yk_detokenizer *detokenizer, int32_t id)
{
  const yk_tokenizer *tokenizer = detokenizer->tokenizer;
  size_t n_bytes;
  if (detokenizer->skip_special_tokens || id < 0 || id >= yk_tokenizer_vocab_size(tokenizer)) return 0;
  int32_t added = yk_vocab_entry_of(&tokenizer->added.contents, id);
  bool is_special = added >= 0 && tokenizer->added.tokens[added].skipped;
  return is_special && text_of(detokenizer, id, &n_bytes) ? n_bytes : 0;
}

yk_status yk_detokenizer_continue(yk_detokenizer *detokenizer, const int32_t *ids, size_t n_ids, yk_err *err)
{
  enum { N_TOKENS = 8 }; /* a character takes at most four, the rule for the first token of a text one */
  size_t first = n_ids, n_bytes;
  yk_status status = YK_OK;
  yk_strbuf dropped = YK_STRBUF_INIT;
  for (int n = 0; first > 0 && n < N_TOKENS; first--) n += text_of(detokenizer, ids[first - 1], &n_bytes) != NULL;
  for (size_t i = first; i < n_ids && status == YK_OK; i++) {
    const char *text = text_of(detokenizer, ids[i], &n_bytes);
    if (text) status = yk_decoder_stream_push(&detokenizer->stream, text, n_bytes, &dropped, err);
  }
  if (status == YK_OK) status = yk_decoder_stream_cut(&detokenizer->stream, &dropped, err);
  yk_strbuf_free(&dropped);
  return status;
}

yk_status yk_detokenizer_finish(yk_detokenizer *detokenizer, yk_strbuf *out, yk_err *err)
{
  return yk_decoder_stream_finish(&detokenizer->stream, out, err);
}

yk_status yk_tokenizer_decode(const yk_tokenizer *tokenizer, const int32_t *ids, size_t n_ids, bool skip_special_tokens,
                              yk_strbuf *out, yk_err *err)
{
  yk_detokenizer *detokenizer;
  YK_TRY(yk_detokenizer_create(tokenizer, skip_special_tokens, &detokenizer, err));
  yk_status status = YK_OK;
  for (size_t i = 0; i < n_ids && status == YK_OK; i++) status = yk_detokenizer_push(detokenizer, ids[i], out, err);
  if (status == YK_OK) status = yk_detokenizer_finish(detokenizer, out, err);
  yk_detokenizer_free(detokenizer);
  return status;
}
