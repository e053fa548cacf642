#include "model/rank_loader.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cpu_pool.h"
#include "kernels/cpu/cpu_simd.h"
#include "loader/repack.h"
#include "model/rope.h"

static void report(const yk_rank_loader *loader, int64_t n_bytes)
{
  if (loader->on_bytes) loader->on_bytes(loader->user, n_bytes);
}

yk_status yk_rank_alloc(const yk_rank_loader *loader, size_t n_bytes, void **out, yk_err *err)
{
  if (n_bytes == 0) return YK_OK;
  return loader->dev->ops->alloc(loader->dev, n_bytes, out, err);
}

typedef struct conversion {
  const char *from; /* may be unaligned */
  yk_dtype from_dtype, dtype;
  float offset, scale;
  char *to;
} conversion;

static void convert(void *context, int thread, int64_t begin, int64_t end)
{
  enum { STRIP = 1024 }; /* floats per strip; a strip stays in the cache */
  (void)thread;
  const conversion *c = context;
  const yk_cpu_simd *simd = yk_cpu_simd_best();
  size_t from_bytes = yk_dtype_bytes(c->from_dtype), to_bytes = yk_dtype_bytes(c->dtype);
  for (int64_t i = begin; i < end; i += STRIP) {
    size_t n = (size_t)yk_min_i64(STRIP, end - i);
    float aligned[STRIP], floats[STRIP];
    memcpy(aligned, c->from + (size_t)i * from_bytes, n * from_bytes);
    simd->to_f32(floats, c->from_dtype, aligned, n);
    for (size_t j = 0; j < n; j++) floats[j] = (floats[j] + c->offset) * c->scale;
    simd->from_f32(c->to + (size_t)i * to_bytes, c->dtype, floats, n);
  }
}

/* Copy n elements to the device, plus offset, times scale, in its activation type, through a small buffer. */
static yk_status upload_converted(const yk_rank_loader *loader, void *dst, yk_dtype dtype, const void *src, int64_t n,
                                  float offset, float scale, yk_err *err)
{
  enum { CHUNK = 1 << 20, MIN_THREAD_ELEMENTS = 1 << 14 };
  yk_device *dev = loader->dev;
  if (dtype == dev->dtype && offset == 0 && scale == 1)
    return dev->ops->upload(dev, dst, src, (size_t)n * yk_dtype_bytes(dtype), err);
  size_t from_bytes = yk_dtype_bytes(dtype), to_bytes = yk_dtype_bytes(dev->dtype);
  char *chunk = malloc((size_t)yk_min_i64(CHUNK, n) * to_bytes);
  if (!chunk) return yk_err_set(err, YK_E_NOMEM, "no memory for a conversion buffer");
  yk_status status = YK_OK;
  for (int64_t done = 0; done < n && status == YK_OK; done += CHUNK) {
    int64_t count = yk_min_i64(CHUNK, n - done);
    conversion c = {.from = (const char *)src + (size_t)done * from_bytes,
                    .from_dtype = dtype,
                    .dtype = dev->dtype,
                    .offset = offset,
                    .scale = scale,
                    .to = chunk};
    yk_cpu_pool_deal(dev->pool, count, MIN_THREAD_ELEMENTS, convert, &c);
    status = dev->ops->upload(dev, (char *)dst + (size_t)done * to_bytes, chunk, (size_t)count * to_bytes, err);
  }
  free(chunk);
  return status;
}

yk_status yk_rank_load_vector(const yk_rank_loader *loader, yk_weight_role role, int32_t layer, int64_t n, float scale,
                              void **out, yk_err *err)
{
  yk_vector_view view;
  size_t n_bytes = (size_t)n * yk_dtype_bytes(loader->dev->dtype);
  YK_TRY(yk_checkpoint_vector(loader->source.checkpoint, role, layer, n, &view, err));
  YK_TRY(yk_rank_alloc(loader, n_bytes, out, err));
  YK_TRY(upload_converted(loader, *out, view.dtype, view.data, n, loader->source.config->norm_offset, scale, err));
  report(loader, (int64_t)n_bytes);
  return YK_OK;
}

yk_status yk_rank_load_norm(const yk_rank_loader *loader, const yk_vector_view *view, void **out, yk_err *err)
{
  size_t n_bytes = (size_t)view->n * yk_dtype_bytes(loader->dev->dtype);
  if (n_bytes == 0) return YK_OK;
  YK_TRY(yk_rank_alloc(loader, n_bytes, out, err));
  YK_TRY(upload_converted(loader, *out, view->dtype, view->data, view->n, loader->source.config->norm_offset, 1, err));
  report(loader, (int64_t)n_bytes);
  return YK_OK;
}

/* Devices take the norm of plain heads as a norm whose n weights are 1. */
static yk_status load_ones(const yk_rank_loader *loader, int32_t n, void **out, yk_err *err)
{
  const size_t n_bytes = (size_t)n * yk_dtype_bytes(loader->dev->dtype);
  float ones[YK_MAX_HEAD_DIM];
  for (int32_t i = 0; i < n; i++) ones[i] = 1;
  YK_TRY(yk_rank_alloc(loader, n_bytes, out, err));
  YK_TRY(upload_converted(loader, *out, YK_F32, ones, n, 0, 1, err));
  report(loader, (int64_t)n_bytes);
  return YK_OK;
}

yk_status yk_rank_load_head_norm(const yk_rank_loader *loader, yk_weight_role role, int32_t layer, void **out,
                                 yk_err *err)
{
  const yk_model_config *c = loader->source.config;
  const yk_attention_widths widths = yk_model_config_widths(c, layer);
  const int32_t n = widths.head_dim;
  yk_vector_view view;
  size_t n_bytes = (size_t)n * yk_dtype_bytes(loader->dev->dtype);
  if (c->qk_norm_is_plain) return load_ones(loader, n, out, err);
  YK_TRY(yk_checkpoint_vector(loader->source.checkpoint, role, layer, n, &view, err));
  size_t element_bytes = yk_dtype_bytes(view.dtype);
  char ordered[YK_MAX_HEAD_DIM * sizeof(float)];
  for (int32_t place = 0; place < n; place++)
    memcpy(ordered + (size_t)place * element_bytes,
           (const char *)view.data +
               (size_t)yk_rotary_element(n, widths.rotary_dim, c->rotary_interleaved, place) * element_bytes,
           element_bytes);
  YK_TRY(yk_rank_alloc(loader, n_bytes, out, err));
  YK_TRY(upload_converted(loader, *out, view.dtype, ordered, n, c->norm_offset, 1, err));
  report(loader, (int64_t)n_bytes);
  return YK_OK;
}

yk_status yk_rank_upload_floats(const yk_rank_loader *loader, const float *floats, int64_t n, float **out, yk_err *err)
{
  void *memory = NULL;
  size_t n_bytes = (size_t)n * sizeof *floats;
  YK_TRY(yk_rank_alloc(loader, n_bytes, &memory, err));
  *out = memory;
  if (n == 0) return YK_OK;
  YK_TRY(loader->dev->ops->upload(loader->dev, memory, floats, n_bytes, err));
  report(loader, (int64_t)n_bytes);
  return YK_OK;
}

yk_status yk_rank_load_floats(const yk_rank_loader *loader, const yk_vector_view *view, float **out, yk_err *err)
{
  float *floats = malloc((size_t)view->n * sizeof *floats);
  if (!floats) return yk_err_set(err, YK_E_NOMEM, "no memory for %lld numbers", (long long)view->n);
  for (int64_t i = 0; i < view->n; i++) {
    uint32_t element = 0; /* the source may be unaligned */
    size_t element_bytes = yk_dtype_bytes(view->dtype);
    memcpy(&element, (const char *)view->data + (size_t)i * element_bytes, element_bytes);
    floats[i] = yk_dtype_load(view->dtype, &element, 0);
  }
  yk_status status = yk_rank_upload_floats(loader, floats, view->n, out, err);
  free(floats);
  return status;
}

yk_status yk_rank_load_embedding(const yk_rank_loader *loader, void **out, yk_err *err)
{
  const yk_model_config *c = loader->source.config;
  yk_range vocab = loader->source.share.vocab;
  const yk_weight_place place = {.role = YK_ROLE_EMBEDDING};
  yk_found_weight found;
  int64_t hidden = c->hidden_size, n = yk_range_size(vocab) * hidden;
  size_t n_bytes = (size_t)n * yk_dtype_bytes(loader->dev->dtype);
  if (n == 0) return YK_OK;
  YK_TRY(yk_checkpoint_find(loader->source.checkpoint, &place, &found, err));
  const yk_weight_view *view = &found.view;
  const char *first = (const char *)view->plain + (size_t)(vocab.begin * hidden) * yk_dtype_bytes(view->dtype);
  YK_TRY(yk_rank_alloc(loader, n_bytes, out, err));
  YK_TRY(upload_converted(loader, *out, view->dtype, first, n, 0, 1, err));
  report(loader, (int64_t)n_bytes);
  return YK_OK;
}

/* Copies the rank's elements of the ids first .. first + n - 1, in the file's dtype: to [n, layers, width]. */
static void gather_layer_rows(const yk_rank_source *source, const yk_weight_view *view, int64_t first, int64_t n,
                              char *to)
{
  const yk_range *layers = &source->share.layers, *input = &source->share.layer_input;
  const size_t element_bytes = yk_dtype_bytes(view->dtype);
  const size_t part_bytes = (size_t)yk_range_size(*input) * element_bytes;
  for (int64_t id = first; id < first + n; id++)
    for (int64_t layer = layers->begin; layer < layers->end; layer++, to += part_bytes) {
      const int64_t element = id * view->k + layer * source->config->layer_input_size + input->begin;
      memcpy(to, (const char *)view->plain + (size_t)element * element_bytes, part_bytes);
    }
}

yk_status yk_rank_load_layer_embedding(const yk_rank_loader *loader, void **out, yk_err *err)
{
  enum { IDS = 256 };
  const yk_rank_source *source = &loader->source;
  const yk_weight_place place = {.role = YK_ROLE_LAYER_EMBEDDING};
  const int64_t width = yk_range_size(source->share.layers) * yk_range_size(source->share.layer_input);
  const int64_t vocab = source->config->vocab_size;
  const size_t n_bytes = (size_t)(vocab * width) * yk_dtype_bytes(loader->dev->dtype);
  yk_found_weight found;
  if (width == 0) return YK_OK;
  YK_TRY(yk_checkpoint_find(source->checkpoint, &place, &found, err));
  YK_TRY(yk_rank_alloc(loader, n_bytes, out, err));
  char *rows = malloc((size_t)(IDS * width) * yk_dtype_bytes(found.view.dtype));
  if (!rows) return yk_err_set(err, YK_E_NOMEM, "no memory for %d rows of the embeddings of layers", IDS);
  yk_status status = YK_OK;
  for (int64_t id = 0; id < vocab && status == YK_OK; id += IDS) {
    const int64_t n = yk_min_i64(IDS, vocab - id);
    char *to = (char *)*out + (size_t)(id * width) * yk_dtype_bytes(loader->dev->dtype);
    gather_layer_rows(source, &found.view, id, n, rows);
    status = upload_converted(loader, to, found.view.dtype, rows, n * width, 0, 1, err);
  }
  free(rows);
  report(loader, (int64_t)n_bytes);
  return status;
}

yk_status yk_rank_load_linear(const yk_rank_loader *loader, const yk_linear_spec *spec, yk_linear **out, yk_err *err)
{
  yk_linear_spec repacked;
  for (int i = 0; i < spec->n_parts; i++) {
    yk_checkpoint_prefetch(&spec->parts[i].weight);
    for (int32_t m = 1; m < spec->n_matrices; m++) yk_checkpoint_prefetch(&spec->parts[i].more_weights[m - 1]);
  }
  YK_TRY(yk_repack_layer(&loader->source.dev, spec, loader->dev->pool, loader->repacked, &repacked, err));
  const yk_status status = loader->dev->ops->linear_create(loader->dev, &repacked, out, err);
  if (status == YK_E_UNSUPPORTED && spec->k_slices > 0)
    yk_err_prefix(err, "batch_invariant: %s", spec->parts[0].weight.tensor ? spec->parts[0].weight.tensor : "a weight");
  YK_TRY(status);
  report(loader, loader->dev->ops->linear_bytes(&repacked));
  return YK_OK;
}

/* Rows of a part's matrix, converted to the device's activation type if the weight is quantised. */
static yk_repack_request request_of_rows(const yk_rank_loader *loader, const yk_linear_part *part, yk_range rows)
{
  return (yk_repack_request){.weight = &part->weight,
                             .slice = {part->k.begin, part->k.end, rows.begin, rows.end},
                             .as_floats = true,
                             .dtype = loader->dev->dtype,
                             .round = yk_cpu_simd_best()->from_f32};
}

/* Load a part's rows to their position in the matrix at dst. buffer: sized for the request. */
static yk_status load_rows(const yk_rank_loader *loader, const yk_linear_part *part, yk_range rows, void *buffer,
                           char *dst, yk_err *err)
{
  const yk_repack_request request = request_of_rows(loader, part, rows);
  yk_repack_result found;
  int64_t k = yk_range_size(part->k);
  char *to = dst + (size_t)((rows.begin - part->n.begin) * k) * yk_dtype_bytes(loader->dev->dtype);
  YK_TRY(yk_repack(&request, loader->dev->pool, buffer, &found, err));
  const yk_weight_view *weight = &found.weight;
  const char *from = (const char *)weight->plain + (size_t)(found.slice.n_begin * k) * yk_dtype_bytes(weight->dtype);
  return upload_converted(loader, to, weight->dtype, from, yk_range_size(rows) * k, 0, 1, err);
}

yk_status yk_rank_load_matrix(const yk_rank_loader *loader, const yk_linear_part *part, void **out, yk_err *err)
{
  enum { ROWS = 256 };
  size_t n_bytes = (size_t)(yk_range_size(part->n) * yk_range_size(part->k)) * yk_dtype_bytes(loader->dev->dtype);
  if (n_bytes == 0) return YK_OK;
  YK_TRY(yk_rank_alloc(loader, n_bytes, out, err));
  const yk_repack_request most = request_of_rows(loader, part, (yk_range){part->n.begin, part->n.begin + ROWS});
  const size_t unit = YK_REPACK_ALIGNMENT_BYTES; /* the alignment of the buffer, and its minimum size */
  void *buffer = aligned_alloc(unit, (size_t)yk_repack_buffer_bytes(&most) + unit);
  if (!buffer) return yk_err_set(err, YK_E_NOMEM, "no memory to convert %d rows of a matrix", ROWS);
  yk_status status = YK_OK;
  for (yk_range rows = part->n; rows.begin < part->n.end && status == YK_OK; rows.begin += ROWS) {
    rows.end = yk_min_i64(rows.begin + ROWS, part->n.end);
    status = load_rows(loader, part, rows, buffer, *out, err);
  }
  free(buffer);
  report(loader, (int64_t)n_bytes);
  return status;
}
