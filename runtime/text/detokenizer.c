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

yk_status yk_detokenizer_push(yk_detokenizer *detokenizer, int32_t id, yk_strbuf *out, yk_err *err)
{
  const yk_tokenizer *tokenizer = detokenizer->tokenizer;
  if (id < 0 || id >= yk_tokenizer_vocab_size(tokenizer))
    return yk_err_set(err, YK_E_INVAL, "token id %d is outside the vocabulary of %d", id,
                      yk_tokenizer_vocab_size(tokenizer));
  size_t n_bytes;
  const char *text = yk_tokenizer_token_text(tokenizer, id, &n_bytes);
  if (!text) return YK_OK; /* a gap in the vocabulary */
  int32_t added = yk_vocab_entry_of(&tokenizer->added.contents, id);
  if (added >= 0) {
    const yk_added_token *token = &tokenizer->added.tokens[added];
    if (token->skipped && detokenizer->skip_special_tokens) return YK_OK;
    if (token->normal_form) {
      text = token->normal_form;
      n_bytes = token->normal_form_bytes;
    }
  }
  return yk_decoder_stream_push(&detokenizer->stream, text, n_bytes, out, err);
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
