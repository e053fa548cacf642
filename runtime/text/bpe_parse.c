/* bpe_parse.c - builds tables from the "model" of a tokenizer.json. */
#include <string.h>

#include "text/bpe.h"

/* Number of a token's bytes that a message shows. */
static int shown(size_t n_bytes)
{
  return n_bytes < 48 ? (int)n_bytes : 48;
}

static yk_status read_vocab(yk_bpe *bpe, const char *file, yk_json model, yk_err *err)
{
  yk_json vocab = yk_json_get(model, "vocab");
  if (!yk_json_is(vocab, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: model.vocab: expected an object, found %s", file,
                      yk_json_type_name(vocab));
  yk_status status = yk_vocab_init(&bpe->vocab, yk_json_size(vocab), err);
  if (status == YK_OK) {
    YK_JSON_EACH_KEY(text, vocab)
    {
      int64_t id;
      yk_json value = yk_json_member(text);
      if (!yk_json_to_i64(value, &id))
        return yk_err_set(err, YK_E_FORMAT,
                          "%s: model.vocab: id of \"%.48s\": expected an integer from 0 to %d, found %.40s", file,
                          yk_json_text(text), YK_VOCAB_MAX_ID,
                          yk_json_is_integer(value) ? yk_json_text(value) : yk_json_type_name(value));
      status = yk_vocab_add(&bpe->vocab, yk_json_text(text), yk_json_length(text), id, err);
      if (status != YK_OK) break;
    }
  }
  if (status != YK_OK) yk_err_prefix(err, "%s: model.vocab", file);
  return status;
}

/* The two sides of one merge: "left right" or ["left", "right"]. */
static bool merge_sides(yk_json merge, const char *side[2], size_t n_bytes[2])
{
  if (yk_json_is(merge, YK_JSON_ARRAY) && yk_json_size(merge) == 2) {
    size_t i = 0;
    YK_JSON_EACH(text, merge)
    {
      if (!yk_json_is(text, YK_JSON_STRING)) return false;
      side[i] = yk_json_string(text);
      n_bytes[i++] = yk_json_length(text);
    }
    return true;
  }
  if (!yk_json_is(merge, YK_JSON_STRING)) return false;
  const char *text = yk_json_string(merge), *end = text + yk_json_length(merge);
  const char *space = memchr(text, ' ', (size_t)(end - text));
  if (!space || memchr(space + 1, ' ', (size_t)(end - space - 1))) return false;
  side[0] = text;
  n_bytes[0] = (size_t)(space - text);
  side[1] = space + 1;
  n_bytes[1] = (size_t)(end - space - 1);
  return true;
}

static yk_status read_merge(yk_bpe *bpe, const char *file, size_t rank, yk_json merge, yk_strbuf *joined, yk_err *err)
{
  const char *side[2];
  size_t n_bytes[2];
  if (!merge_sides(merge, side, n_bytes))
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: model.merges[%zu]: expected \"left right\" or [\"left\", \"right\"], found %s", file, rank,
                      yk_json_type_name(merge));
  int32_t ids[2];
  for (int i = 0; i < 2; i++) {
    ids[i] = yk_vocab_id(&bpe->vocab, side[i], n_bytes[i]);
    if (ids[i] < 0)
      return yk_err_set(err, YK_E_FORMAT, "%s: model.merges[%zu]: \"%.*s\" is not in the vocabulary", file, rank,
                        shown(n_bytes[i]), side[i]);
  }
  yk_strbuf_clear(joined);
  yk_strbuf_append(joined, side[0], n_bytes[0]);
  yk_strbuf_append(joined, side[1], n_bytes[1]);
  if (joined->failed) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for merges", file);
  int32_t merged_id = yk_vocab_id(&bpe->vocab, joined->data, joined->length);
  if (merged_id < 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: model.merges[%zu]: the merged \"%.*s\" is not in the vocabulary", file,
                      rank, shown(joined->length), joined->data);
  /* a pair listed twice keeps its last rank, as in the public implementation */
  uint64_t pair = (uint64_t)(uint32_t)ids[0] << 32 | (uint32_t)ids[1];
  *yk_bpe_merge_slot(bpe, ids[0], ids[1]) = (yk_bpe_merge){pair, (int32_t)rank, merged_id};
  return YK_OK;
}

static yk_status read_merges(yk_bpe *bpe, const char *file, yk_json model, yk_err *err)
{
  yk_json merges = yk_json_get(model, "merges");
  if (!yk_json_is(merges, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_FORMAT, "%s: model.merges: expected an array, found %s", file,
                      yk_json_type_name(merges));
  size_t n = yk_json_size(merges), n_slots = 64;
  if (n > INT32_MAX / 2) return yk_err_set(err, YK_E_FORMAT, "%s: model.merges: %zu are too many", file, n);
  while (n_slots < 2 * n) n_slots *= 2;
  bpe->merge_mask = n_slots - 1;
  bpe->merges = malloc(n_slots * sizeof *bpe->merges);
  if (!bpe->merges) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu merges", file, n);
  memset(bpe->merges, 0xFF, n_slots * sizeof *bpe->merges);
  yk_strbuf joined = YK_STRBUF_INIT;
  yk_status status = YK_OK;
  size_t rank = 0;
  YK_JSON_EACH(merge, merges)
  {
    /* merges.txt begins with a version line, which old converters left among the merges */
    if (yk_json_is(merge, YK_JSON_STRING) && strncmp(yk_json_string(merge), "#version", 8) == 0) continue;
    status = read_merge(bpe, file, rank++, merge, &joined, err);
    if (status != YK_OK) break;
  }
  yk_strbuf_free(&joined);
  return status;
}

/* Options that would change the ids and that no supported model uses: refused unless they are off. */
static yk_status refuse_options(const char *file, yk_json model, yk_err *err)
{
  static const char *const AFFIXES[] = {"continuing_subword_prefix", "end_of_word_suffix"};
  for (size_t i = 0; i < sizeof AFFIXES / sizeof *AFFIXES; i++) {
    const char *affix;
    YK_TRY(yk_json_get_str(model, file, AFFIXES[i], false, &affix, err));
    if (affix && *affix)
      return yk_err_set(err, YK_E_UNSUPPORTED, "%s: model.%s \"%.48s\" is not supported (only none)", file, AFFIXES[i],
                        affix);
  }
  double dropout = 0;
  YK_TRY(yk_json_get_f64(model, file, "dropout", false, 0, 1, &dropout, err));
  if (dropout != 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: model.dropout %g is not supported (only 0)", file, dropout);
  return YK_OK;
}

static yk_status read_unk_token(yk_bpe *bpe, const char *file, yk_json model, yk_err *err)
{
  const char *unk_token;
  bpe->unk_id = -1;
  YK_TRY(yk_json_get_str(model, file, "unk_token", false, &unk_token, err));
  if (!unk_token) return YK_OK;
  bpe->unk_token = strdup(unk_token);
  if (!bpe->unk_token) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for unk_token", file);
  bpe->unk_id = yk_vocab_id(&bpe->vocab, unk_token, strlen(unk_token));
  return YK_OK;
}

static void find_byte_ids(yk_bpe *bpe)
{
  for (int byte = 0; byte < 256; byte++) {
    static const char HEX[] = "0123456789ABCDEF";
    char text[] = {'<', '0', 'x', HEX[byte >> 4], HEX[byte & 15], '>'};
    bpe->byte_ids[byte] = yk_vocab_id(&bpe->vocab, text, sizeof text);
  }
}

static yk_status parse(yk_bpe *bpe, const char *file, yk_json model, yk_err *err)
{
  const char *type;
  if (!yk_json_is(model, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: model: expected an object, found %s", file, yk_json_type_name(model));
  YK_TRY(yk_json_get_str(model, file, "type", false, &type, err)); /* the first tokenizer.json files have no type */
  if (type && strcmp(type, "BPE") != 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: model type \"%.48s\" is not supported (supported: BPE)", file, type);
  YK_TRY(refuse_options(file, model, err));
  YK_TRY(yk_json_get_bool(model, file, "fuse_unk", false, &bpe->fuse_unk, err));
  YK_TRY(yk_json_get_bool(model, file, "byte_fallback", false, &bpe->byte_fallback, err));
  YK_TRY(yk_json_get_bool(model, file, "ignore_merges", false, &bpe->ignore_merges, err));
  YK_TRY(read_vocab(bpe, file, model, err));
  YK_TRY(read_merges(bpe, file, model, err));
  YK_TRY(read_unk_token(bpe, file, model, err));
  find_byte_ids(bpe);
  return YK_OK;
}

yk_status yk_bpe_parse(yk_bpe *bpe, const char *file, yk_json model, yk_err *err)
{
  *bpe = (yk_bpe){0};
  yk_status status = parse(bpe, file, model, err);
  if (status != YK_OK) yk_bpe_free(bpe);
  return status;
}

void yk_bpe_free(yk_bpe *bpe)
{
  yk_vocab_free(&bpe->vocab);
  free(bpe->merges);
  free(bpe->unk_token);
  *bpe = (yk_bpe){0};
}
