#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file_part.h"
#include "convert/formats.h"
#include "convert/stream.h"
#include "loader/foreign/kuiper_layout.h"

/* ---- Limits of the format ---------------------------------------------------------------------------------------- */

static yk_status refuse(const char *what, const char *supported, yk_err *err)
{
  return yk_err_set(err, YK_E_UNSUPPORTED, "KuiperLLama's format cannot express %s; supported: %s", what, supported);
}

static yk_status check_config(const yk_model_config *c, yk_err *err)
{
  char found[64];
  snprintf(found, sizeof found, "a model of the family %s", yk_model_family_name(c->family));
  if (c->family != YK_FAMILY_QWEN3) return refuse(found, "qwen3", err);
  if (c->qkv_bias || c->o_bias || c->mlp_bias) return refuse("biases (attention_bias true)", "none", err);
  snprintf(found, sizeof found, "rope_theta %g", c->rope.theta);
  if (c->rope.theta != YK_KUIPER_ROPE_THETA) return refuse(found, "1e6, which it implies", err);
  if (c->rope.type != YK_ROPE_DEFAULT) return refuse("rope_scaling", "none", err);
  snprintf(found, sizeof found, "rms_norm_eps %g", (double)c->rms_norm_eps);
  if (c->rms_norm_eps != (float)YK_KUIPER_RMS_NORM_EPS) return refuse(found, "1e-6, which it implies", err);
  for (int32_t i = 0; i < c->n_layers; i++)
    if (c->window_tokens[i]) return refuse("sliding windows", "none", err);
  return YK_OK;
}

static yk_status check_weights(const yk_convert_source *source, yk_err *err)
{
  for (size_t i = 0; i < source->n_items; i++) {
    const yk_convert_item *item = &source->items[i];
    bool is_plain = item->kind == YK_CONVERT_VECTOR || item->role == YK_ROLE_EMBEDDING || item->role == YK_ROLE_LM_HEAD;
    if (is_plain == !yk_convert_is_quantised(item)) continue;
    return yk_err_set(
        err, YK_E_UNSUPPORTED,
        "%s: KuiperLLama's format has 4-bit integers in all linear layers and floats in lm_head: expected "
        "%s, found %s",
        item->module, is_plain ? "floats" : "4-bit integers", is_plain ? "4-bit integers" : "floats");
  }
  return YK_OK;
}

/* ---- lm_head ----------------------------------------------------------------------------------------------------- */

/* lm_head is not stored if all its numbers equal those of the embedding, as in the tool that defines the format. */
static bool is_shared(const yk_convert_source *source)
{
  const yk_convert_item *head = yk_convert_source_find(source, YK_ROLE_LM_HEAD, 0);
  if (!head) return true;
  const yk_weight_view *a = &head->weight, *b = &yk_convert_source_find(source, YK_ROLE_EMBEDDING, 0)->weight;
  if (a->dtype != b->dtype) return false;
  size_t element_bytes = yk_dtype_bytes(a->dtype), n = (size_t)(a->n * a->k);
  for (size_t i = 0; i < n; i++) {
    uint32_t x = 0, y = 0; /* elements may be unaligned in the file */
    memcpy(&x, (const char *)a->plain + i * element_bytes, element_bytes);
    memcpy(&y, (const char *)b->plain + i * element_bytes, element_bytes);
    if (!(yk_dtype_load(a->dtype, &x, 0) == yk_dtype_load(b->dtype, &y, 0))) return false; /* false for NaN too */
  }
  return true;
}

/* ---- The file ---------------------------------------------------------------------------------------------------- */

static yk_status put_to_part(void *file, const void *bytes, size_t n_bytes, yk_err *err)
{
  return yk_file_part_write(file, bytes, n_bytes, err);
}

static yk_status put_tensor(yk_convert_stream *stream, const yk_convert_source *source, const yk_kuiper_layout *layout,
                            size_t i, yk_err *err)
{
  const yk_kuiper_tensor *part = &layout->parts[i];
  const yk_convert_item *item = yk_convert_source_find(source, part->role, part->layer);
  const char *name = layout->tensors[i].name;
  if (item->kind == YK_CONVERT_VECTOR)
    return yk_convert_put_f16(stream, name, item->vector.dtype, item->vector.data, item->vector.n, err);
  const yk_weight_view *w = &item->weight;
  if (!yk_convert_is_quantised(item)) return yk_convert_put_f16(stream, name, w->dtype, w->plain, w->n * w->k, err);
  if (strcmp(part->suffix, "qweight") != 0) return YK_OK; /* qzeros and scales are written together with qweight */
  const char *scales = layout->tensors[i + 2].name;
  return yk_convert_put_int4(stream, w, source->group_size, scales, err);
}

static yk_status write_all(const yk_convert_source *source, const yk_kuiper_header *header,
                           const yk_kuiper_layout *layout, yk_convert_stream *stream, yk_err *err)
{
  uint8_t bytes[YK_KUIPER_HEADER_BYTES];
  yk_kuiper_header_write(header, bytes);
  YK_TRY(yk_convert_put(stream, bytes, sizeof bytes, err));
  for (size_t i = 0; i < layout->n_tensors; i++) YK_TRY(put_tensor(stream, source, layout, i, err));
  if (stream->done_bytes == stream->total_bytes) return YK_OK;
  return yk_err_set(err, YK_E_INTERNAL, "expected %lld bytes, wrote %lld", (long long)stream->total_bytes,
                    (long long)stream->done_bytes);
}

static yk_status write_file(const yk_convert_source *source, const yk_kuiper_header *header,
                            const yk_kuiper_layout *layout, const yk_convert_options *options, yk_err *err)
{
  yk_file_part part;
  YK_TRY(yk_file_part_open(options->out, &part, err));
  yk_convert_stream stream = {.put = put_to_part,
                              .file = &part,
                              .progress = options->progress,
                              .progress_user = options->progress_user,
                              .total_bytes = (int64_t)layout->file_bytes};
  yk_status status = write_all(source, header, layout, &stream, err);
  status = yk_checkpoint_settle(source->checkpoint, status, err);
  if (status == YK_OK) status = yk_file_part_sync(&part, err);
  if (status == YK_OK) status = yk_file_part_rename(&part, err);
  yk_file_part_free(&part);
  return status;
}

yk_status yk_convert_write_kuiper(const yk_convert_source *source, const yk_convert_options *options, yk_err *err)
{
  const yk_model_config *c = source->config;
  if (access(options->out, F_OK) == 0)
    return yk_err_set(err, YK_E_IO, "%s: exists already and is not overwritten: name another file", options->out);
  YK_TRY(check_config(c, err));
  YK_TRY(check_weights(source, err));
  const yk_kuiper_header header = {.dim = c->hidden_size,
                                   .hidden_dim = c->ffn_size,
                                   .n_layers = c->n_layers,
                                   .n_heads = c->n_heads,
                                   .n_kv_heads = c->n_kv_heads,
                                   .vocab_size = c->vocab_size,
                                   .max_seq_len = c->max_position_embeddings,
                                   .head_dim = c->head_dim,
                                   .group_size = source->group_size,
                                   .shared_classifier = is_shared(source)};
  yk_kuiper_layout layout;
  YK_TRY(yk_kuiper_header_check(options->out, &header, err));
  YK_TRY(yk_kuiper_layout_make(&header, &layout, err));
  yk_status status = write_file(source, &header, &layout, options, err);
  yk_kuiper_layout_free(&layout);
  return status;
}
